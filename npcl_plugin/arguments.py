"""The family's command-line arguments.

An argument without a default gets its value from the model's settings file
(`models/config/*.yaml`), which has one for each setting and benchmark. Our harness resolves these
files before a model is built; where the harness does not, `npcl_plugin.settings` does.
"""
import functools
from collections.abc import Callable
from typing import Any, get_args

from npcl_plugin.answers import HeadInference
from npcl_plugin.context import CONTEXTS
from npcl_plugin.contract import bool01, number, resolves_settings, usage_error
from npcl_plugin.inference import NoveltyBy
from npcl_plugin.kernels.build import Kernels
from npcl_plugin.objective import DISTANCES, Reduction
from npcl_plugin.plan import DecoderWidth, Encoders, GlobalDraws
from npcl_plugin.settings import postpone
from npcl_plugin.terms import TERMS
from npcl_plugin.uncertainty.arguments import add_arguments as add_uncertainty

WEIGHT = number(float, least=0)
COUNT, SIZE, DEPTH = number(int, least=0), number(int, least=1), number(int, least=0, most=100)
DRAWS = number(int, least=1, most=10_000)


def add_arguments(parser: Any) -> None:
    """Everything, with the paper's symbols."""
    before = {action.dest for action in parser._actions}
    _add_replay(parser)
    _add_objective(parser)
    _add_network(parser)
    _add_sampling(parser)
    _add_extensions(parser)
    if not resolves_settings():
        add_uncertainty(parser)  # in our harness every model has these
        postpone([action for action in parser._actions if action.dest not in before])


def _add_replay(parser: Any) -> None:
    parser.add_argument("--buffer_size", type=SIZE, required=True,
                        help="samples that the buffer holds")
    # Upstream overwrites --minibatch_size with --batch_size; there, --replay_size is an argument
    # of its own. Everywhere else the two are one.
    own = (("--minibatch_size", "--replay_size"),) if resolves_settings() else \
        (("--minibatch_size",), ("--replay_size",))
    for names in own:
        parser.add_argument(*names, type=COUNT, help="samples replayed per step; default: as many "
                                                   "as --batch_size")


def _add_objective(parser: Any) -> None:
    add = _required(parser)
    for term in TERMS:
        if term.weight:
            add(f"--{term.weight}", type=WEIGHT, help=term.help)
    add("--likelihood", choices=("targets", "sets"),
        help="the cross-entropy: targets = mean over all targets (equation 8); sets = mean over "
             "the stream plus mean over replay (the authors' code)")
    add("--divergence", choices=get_args(Reduction),
        help="how divergences are summed: sum = over units and tasks; sample = over units, tasks "
             "weighted by their samples (equation 8); mean = the same, averaged over units; sets = "
             "sum, of stream and replay added up (the authors' code)")
    add("--regulariser", choices=tuple(DISTANCES),
        help="distance of GR and TR: js = symmetric (the paper), kl = the authors' code")
    add("--gr_against", choices=("last", "all"),
        help="GR holds z^G to the last recorded distribution (equation 6) or to all of them (the "
             "authors' code)")
    add("--global_draws", choices=get_args(GlobalDraws),
        help="set = tasks share a draw of z^G, and so do prior and posterior; task = each has its "
             "own (the authors' code), and D^t and TR look at the last draw")
    add("--context_from", choices=tuple(CONTEXTS),
        help="context of a step: dataset = samples of D_C^t, and some of replay from every task; "
             "batch = some of stream and replay from every class (the authors' code)")
    add("--latents_from", choices=("targets", "context"),
        help="what the decoder trains on: q(z^t|z^G,T^t) (appendix A.1) or q(z^t|z^G,C^t) "
             "(equation 5)")
    add("--one_pass", type=bool01,
        help="1: stream and replay form one set; 0: two sets, each with its own z^G")
    add("--warmup", type=COUNT,
        help="iterations of linear warm-up of the learning rate (paper: 4000 class-IL, 40 "
             "domain-IL)")
    add("--warmup_share", type=number(float, least=0, most=1),
        help="part of every task's steps in which the learning rate rises from 1e-5, instead of "
             "--warmup (the authors' code: 0.5); 0: none")
    add("--grad_cap", type=number(float, above=0),
        help="cap of the gradient norm of the NP's parameters (paper: 10000)")


def _add_network(parser: Any) -> None:
    add = _required(parser)
    add("--latent_size", type=SIZE, help="size of latents and layers (paper: |o|; 256 class-IL, 32 "
                                        "domain-IL)")
    add("--np_depth", type=DEPTH, help="hidden layers of each MLP of the encoders; 0: one linear "
                                     "layer (paper: 2 class-IL; \"one 32-d layer\" domain-IL)")
    add("--decoder_depth", type=DEPTH, help="hidden layers of the decoder; 0: linear in x, r and z "
                                          "(the paper: an MLP classifier)")
    add("--decoder_width", choices=get_args(DecoderWidth),
        help="width of the decoder's hidden layers: |o| or the number of features (the authors' "
             "code)")
    add("--np_norm", type=bool01, help="LayerNorm after each hidden layer (paper: class-IL only)")
    add("--encoders", choices=get_args(Encoders),
        help="paper = one residual, normalised attention each, deviations between 0.1 and 1; "
             "release = the authors' code: perceptrons that end in LayerNorm and ReLU, two "
             "attention blocks O + ReLU(W O) each, dropout on queries and keys, no self-attention "
             "of the context, unbounded deviations exp(.) + 0.01")
    add("--attention_heads", type=COUNT,
        help="heads of each attention; divides |o| (the paper is silent; 4 class-IL, 2 domain-IL); "
             "0: the context's mean instead, as in np")


def _add_sampling(parser: Any) -> None:
    add = parser.add_argument
    add("--n_global", type=DRAWS, default=50, help="draws of z^G in training (paper: N = 50)")
    add("--n_global_eval", type=DRAWS, default=10,
        help="draws of z^G in evaluation (paper: N = 10)")
    add("--n_task", type=DRAWS, default=1, help="draws of z^t for each z^G (paper: M = 1)")
    add("--draws_per_target", type=DRAWS, default=10,
        help="draws of z that a target is decoded under in training where the decoder has hidden "
             "layers; of more draws each has its share of the targets")
    add("--memory_batches", type=COUNT, default=100,
        help="batches of the pass at the end of a task that records its distributions; 0: all of "
             "the task (the paper)")
    add("--context_per_class", type=SIZE, default=100,
        help="samples per class in the context dataset (paper: D_C^t, 100)")
    add("--context_share", type=number(float, above=0, most=100), default=0.125,
        help="context batch ÷ target batch (paper: 1/8)")
    add("--eval_context", type=SIZE, help="rows of the buffer used as context in evaluation; "
                                         "default: all")
    add("--step_graphs", choices=("auto", "0", "1"), default="auto",
        help="1: training steps are recorded, which makes them faster and changes no bit of a "
             "result; auto: in long runs; 0: never")
    add("--kernels", choices=get_args(Kernels), default="auto",
        help="compiled: attention and a decoder with one hidden layer by functions in C, which on "
             "the CPU are faster and round otherwise; auto: where there is a C compiler; torch: "
             "never")
    add("--noisy_context", type=bool01, default=False,
        help="ablation: the context of a task goes to a random other task's encoder (appendix)")
    add("--multitask", type=bool01, default=False,
        help="with --joint 1: one head per task of the benchmark, told in training and inferred at "
             "test time")
    _required(parser)("--head_inference", choices=get_args(HeadInference),
        help="which head answers: entropy = least entropy (paper, equation 9); mixture = mean of "
             "all heads' probabilities; naive = mean of all logits (paper's naive NPCL); "
             "variance, energy, max_prob = least variance over draws, least energy, largest "
             "probability")


def _add_extensions(parser: Any) -> None:
    _required(parser)("--residual_decoder", type=bool01,
                      help="ours: add the backbone's own classifier to the logits")
    _required(parser)("--slow_decay", type=number(float, least=0, below=1),
                      help="ours: decay of the slow weights, the network's exponential average, "
                           "which answer; 0: none")
    _required(parser)("--rate_decay", type=WEIGHT,
                      help="ours: the learning rate of the t-th task is divided by t ** this, for "
                           "the more tasks the weights hold, the less they should move; 0: never")
    _required(parser)("--stream_prior", type=WEIGHT,
                      help="ours: classes compete for a sample of the stream with prior odds "
                           "n ** this, n its samples in context and buffer; 0: as equals")
    _required(parser)("--stream_context", type=COUNT,
                      help="ours, on frozen features (--features): class means of the whole stream "
                           "are context, and this many samples per step are moved onto the means "
                           "of past classes; 0: none")
    _required(parser)("--stream_shrinkage", type=number(float, above=0, most=1),
                      help="ours, with --stream_context: steps of the decoder follow the inverse "
                           "scatter of the stream's features, with this weight of the identity; "
                           "1: plain steps")
    _required(parser)("--input_memory", type=bool01,
                      help="ours: keep mean and variance in D_C^t of every number of an input, per "
                           "class (class-IL) or task (domain-IL), to tell novel inputs by; it "
                           "changes no answer")
    _required(parser)("--novelty_by", choices=get_args(NoveltyBy),
                      help="what tells novel images: features = the angle to the context's "
                           "(and --input_memory); looks = ours: how unlike the context's images "
                           "they look in colour, contrast and texture, times the answer's entropy")
    parser.add_argument(
        "--extension_draws", type=SIZE, default=4,
        help="ours: draws used by --task_marginal and --head_contrast")


def _required(parser: Any) -> Callable[..., Any]:
    """`add_argument` for what has no default of its own: the settings files must name a value."""
    return functools.partial(parser.add_argument, required=True)


def check_arguments(args: Any, has_task: bool, dataset: Any) -> None:
    """Refuse what does not fit together, or a benchmark, in one sentence."""
    if not args.attention_heads and has_task:
        raise usage_error("--attention_heads 0 takes means for attention, but task latents are "
                          "made by theirs; give 1 at least.")
    if args.attention_heads and args.latent_size % args.attention_heads:
        raise usage_error(f"Expected --attention_heads to divide --latent_size, but got "
                          f"{args.attention_heads} and {args.latent_size}.")
    if args.encoders == "release" and args.np_depth < 2:
        raise usage_error(f"Expected --np_depth of 2 at least with --encoders release, but got "
                          f"{args.np_depth}.")
    if args.context_from == "batch" and args.global_draws != "task":
        raise usage_error("--context_from batch may leave a replayed task without context, which "
                          "--global_draws task alone allows; give that too.")
    if args.novelty_by == "looks" and len(dataset.SIZE) != 2:
        raise usage_error("--novelty_by looks is about images, and this benchmark has none; "
                          "give --novelty_by features.")
