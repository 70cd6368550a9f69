"""The family's command-line arguments and how their defaults follow the setting.

An argument whose default depends on the setting is None until `fill` looks it up: in the model's
YAML under the benchmark, then under its setting (`class-il`, `domain-il`).
"""
from argparse import Namespace
from pathlib import Path
from typing import Any, get_args

from npcl_plugin.contract import add_rehearsal_args, bool01, number
from npcl_plugin.inference import HeadInference
from npcl_plugin.objective import Reduction
from npcl_plugin.settings import published, read_settings
from npcl_plugin.terms import TERMS

PER_SETTING = (*(term.weight for term in TERMS if term.weight), "divergence", "latents_from",
               "one_pass", "latent_size", "np_depth", "decoder_depth", "np_norm",
               "attention_heads", "warmup", "head_inference", "residual_decoder")
# Domain-IL's published rate of 0.2 has no room for a second loss on the logits: with these
# extensions some seeds diverged under the paper's cap of 10000, and none under these.
DOMAIN_IL_CAPS = {"task_marginal": 2.0, "dark_replay": 0.5}
WEIGHT = number(float, least=0)
COUNT, SIZE, DEPTH = number(int, least=0), number(int, least=1), number(int, least=0, most=100)


def add_arguments(parser: Any) -> None:
    """Everything, with the paper's symbols."""
    add_rehearsal_args(parser)
    _add_objective(parser)
    _add_network(parser)
    _add_sampling(parser)
    _add_extensions(parser)


def _add_objective(parser: Any) -> None:
    add = parser.add_argument
    for term in TERMS:
        if term.weight:
            add(f"--{term.weight}", type=WEIGHT, help=term.help)
    add("--divergence", choices=get_args(Reduction),
        help="how divergences are summed: sum = over units and tasks; sample = over units, tasks "
             "weighted by their samples (equation 8); mean = the same, averaged over units")
    add("--latents_from", choices=("targets", "context"),
        help="what the decoder trains on: q(z^t|z^G,T^t) (appendix A.1) or q(z^t|z^G,C^t) "
             "(equation 5)")
    add("--one_pass", type=bool01,
        help="1: stream and replay form one set; 0: two sets, each with its own z^G")
    add("--replay_size", type=COUNT,
        help="replayed samples a step; default: --batch_size (upstream ignores --minibatch_size, "
             "so this is ours)")
    add("--warmup", type=COUNT,
        help="iterations of linear warm-up of the learning rate (paper: 4000 class-IL, 40 "
             "domain-IL)")
    add("--grad_cap", type=number(float, above=0),
        help="cap of the gradient norm of the NP's parameters (paper: 10000; ours, in domain-IL: "
             "2 with --task_marginal, 0.5 with --dark_replay)")


def _add_network(parser: Any) -> None:
    add = parser.add_argument
    add("--latent_size", type=SIZE, help="size of latents and layers (paper: |o|; 256 class-IL, 32 "
                                        "domain-IL)")
    add("--np_depth", type=DEPTH, help="hidden layers of each MLP of the encoders; 0: one linear "
                                     "layer (paper: 2 class-IL; \"one 32-d layer\" domain-IL)")
    add("--decoder_depth", type=DEPTH, help="hidden layers of the decoder; 0: linear in x, r and z "
                                          "(the paper: an MLP classifier)")
    add("--np_norm", type=bool01, help="LayerNorm after each hidden layer (paper: class-IL only)")
    add("--attention_heads", type=SIZE, help="heads of each attention; divides |o| (the paper is "
                                            "silent; 4 class-IL, 2 domain-IL)")


def _add_sampling(parser: Any) -> None:
    add = parser.add_argument
    add("--n_global", type=SIZE, default=50, help="draws of z^G in training (paper: N = 50)")
    add("--n_global_eval", type=SIZE, default=10, help="draws of z^G in evaluation (paper: N = 10)")
    add("--n_task", type=SIZE, default=1, help="draws of z^t for each z^G (paper: M = 1)")
    add("--context_per_class", type=SIZE, default=100,
        help="samples a class in the context dataset (paper: D_C^t, 100)")
    add("--context_share", type=number(float, above=0, most=1), default=0.125,
        help="context batch ÷ target batch (paper: 1/8)")
    add("--eval_context", type=SIZE, help="rows of the buffer used as context in evaluation; "
                                         "default: all")
    add("--noisy_context", type=bool01, default=False,
        help="ablation: the context of a task goes to a random other task's encoder (appendix)")
    add("--multitask", type=bool01, default=False,
        help="with --joint 1: one head a task of the benchmark, told in training and inferred at "
             "test time")
    add("--head_inference", choices=get_args(HeadInference),
        help="which head answers: entropy = least entropy (paper, equation 9); mixture = mean of "
             "all heads' probabilities; naive = mean of all logits (paper's naive NPCL); "
             "variance, energy, max_prob = least variance over draws, least energy, largest "
             "probability")


def _add_extensions(parser: Any) -> None:
    add = parser.add_argument
    add("--residual_decoder", type=bool01,
        help="ours: add the backbone's own classifier to the logits")
    add("--extension_draws", type=SIZE, default=4,
        help="ours: draws used by --task_marginal and --head_contrast")


def fill(args: Namespace, path: Path, dataset: str, setting: str) -> None:
    """Give every argument of `PER_SETTING` that nobody set its value, in place."""
    general = read_settings(path)["domain-il" if setting == "domain-il" else "class-il"]
    known = dict(general)
    if getattr(args, "model_config", None) != "base":
        known.update(published(path, dataset, getattr(args, "buffer_size", None)))
    for name in PER_SETTING:
        if getattr(args, name, None) is None:
            setattr(args, name, known[name])
    if args.grad_cap is None:
        lower = [cap for name, cap in DOMAIN_IL_CAPS.items()
                 if setting == "domain-il" and getattr(args, name)]
        args.grad_cap = min(lower, default=known["grad_cap"])
    if args.replay_size is None:
        args.replay_size = args.batch_size
