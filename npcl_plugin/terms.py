"""The terms of the loss: each is declared here and nowhere else.

A term has a name in the logs, an argument for its weight and a function of the training step. A
new one is a function with `@term(...)` in this file and a line of YAML (`models/config/npcl.yaml`)
for its weight: the command line and the loss read the list. What the terms compute is
in `objective.py`.
"""
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from npcl_plugin import objective
from npcl_plugin.layers.encoders import MeanPath, same
from npcl_plugin.network import NPNetwork, TrainingPass
from npcl_plugin.plan import Plan


class Targets(NamedTuple):
    """Stream, its context and replay, in this order."""

    x: torch.Tensor  # (B, F)
    labels: torch.Tensor  # (B,)
    tasks: torch.Tensor  # (B,)
    sets: torch.Tensor  # (B,) 1 for replay if it is a set of its own, else 0
    context: torch.Tensor  # (m,)
    replayed: int  # how many of the rows, the last ones, come from the buffer
    stored: torch.Tensor | None  # (replayed, C) logits stored with them
    log_odds: torch.Tensor | None  # (B, C) at which classes compete for a row, None for even odds
    recalled: torch.Tensor | None = None  # (B - replayed, C) see `recall.Recall.log_probs`


class Forwards(NamedTuple):
    """A step that was computed forwards."""

    values: dict[str, float]  # the loss and its terms
    # Gives all parameters their gradients, in place of old ones; returns the norm of the process's.
    backward: Callable[[], torch.Tensor]
    mean_logits: torch.Tensor | None  # (B, C) under each target's own head, if they are stored


@dataclass
class Step:
    """What a term may look at: one training step, forwards."""

    net: NPNetwork
    args: Namespace
    targets: Targets
    out: TrainingPass
    current_task: int
    unchecked: list[torch.Tensor] | None = None  # see `logits.AdditiveLogits.cross_entropy`

    @cached_property
    def past(self) -> torch.Tensor:
        """Which cells are replayed samples of a task that the memory knows, (K,)."""
        cells = self.out.cells
        return self.net.memory.recorded[cells.tasks] & (cells.sets == cells.n_sets - 1)

    @cached_property
    def every_head(self) -> torch.Tensor:
        """Logits of a few draws under the head of every cell, (K, S, B, C)."""
        return self.net.decode(self.targets.x, self.out.r, self.out.z[:self.args.extension_draws])

    @cached_property
    def mean_logits(self) -> torch.Tensor:
        """Under each target's own head, over the draws: (B, C)."""
        return self.out.logits.mean()

    @cached_property
    def present(self) -> torch.Tensor:
        """Which cells are in the target's own set, (K, B)."""
        return self.out.cells.sets.unsqueeze(1) == self.targets.sets


def always(step: Step) -> bool:
    """At every step."""
    return True


def with_memory(step: Step) -> bool:
    """On replayed samples only, from the second task on."""
    return step.targets.replayed > 0 and step.current_task > 0


@dataclass(frozen=True)
class Term:
    """A part of the loss.

    Attributes:
        name: in the logs.
        function: a scalar, given the step.
        weight: the argument that weighs it, None for a fixed 1; the term is left out at 0.
        help: of that argument.
        fits: whether a neural process has what the term is about; asked once.
        when: whether it takes part in a step.
    """

    name: str
    function: Callable[[Step], torch.Tensor]
    weight: str | None
    help: str
    fits: Callable[[Plan], bool]
    when: Callable[[Step], bool]

    def weight_in(self, args: Namespace) -> float:
        """The weight that the arguments give it."""
        return 1.0 if self.weight is None else float(getattr(args, self.weight))


TERMS: list[Term] = []


def term(name: str, *, weight: str | None = None, help: str = "",  # noqa: A002
         fits: Callable[[Plan], bool] = lambda plan: True,
         when: Callable[[Step], bool] = always) -> Callable[
             [Callable[[Step], torch.Tensor]], Callable[[Step], torch.Tensor]]:
    """Declare the decorated function as a term; see `Term`."""
    def declare(function: Callable[[Step], torch.Tensor]) -> Callable[[Step], torch.Tensor]:
        TERMS.append(Term(name, function, weight, help, fits, when))
        return function

    return declare


class Loss:
    """Equation 8: the weighted sum of the terms that the arguments ask for.

    Args:
        args: with every term's weight.
        plan: of the neural process.
    """

    def __init__(self, args: Namespace, plan: Plan) -> None:
        weights = [(each, each.weight_in(args)) for each in TERMS if each.fits(plan)]
        self.weighted = [(each, weight) for each, weight in weights if weight]

    def state_dict(self) -> dict[str, float]:
        """There is none: the arguments make it anew."""
        return {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """There is nothing to load."""

    def __call__(self, step: Step) -> tuple[torch.Tensor, dict[str, float]]:
        """The loss and the values of the terms that it is made of."""
        present = self.present(step)
        loss, values = weighted_sum(step, present)
        return loss, dict(zip([each.name for each, _ in present], values.tolist(), strict=True))

    def present(self, step: Step) -> list[tuple[Term, float]]:
        """The terms that take part in a step, and their weights."""
        return [(each, weight) for each, weight in self.weighted if each.when(step)]


def weighted_sum(step: Step, present: list[tuple[Term, float]]) \
        -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of these terms, and each without its weight (n,)."""
    values = torch.stack([each.function(step) for each, _ in present])
    return values @ values.new_tensor([weight for _, weight in present]), values


@term("ce")
def cross_entropy(step: Step) -> torch.Tensor:
    """-E_q [log p(y | x, z)] of equation 5."""
    targets, logits = step.targets, step.out.logits
    if targets.log_odds is not None:
        logits = logits.plus(targets.log_odds)
    weight = None
    if step.args.likelihood == "sets" and targets.replayed:
        sizes = len(targets.labels) - targets.replayed, targets.replayed
        weight = torch.cat([targets.x.new_full((size,), 1 / size) for size in sizes])
    return logits.cross_entropy(targets.labels, weight, step.unchecked)


@term("d_task", weight="alpha", help="weight of D^t (paper: α)", fits=lambda plan: plan.has_task)
def task_divergence(step: Step) -> torch.Tensor:
    """D^t of equation 5."""
    out = step.out
    return objective.task_divergence(out.task_posterior, out.task_prior, out.cells,
                                     step.args.divergence)


@term("d_global", weight="beta", help="weight of D^G (paper: β)",
      fits=lambda plan: plan.has_global)
def global_divergence(step: Step) -> torch.Tensor:
    """D^G of equation 5."""
    out = step.out
    return objective.global_divergence(out.global_posterior, out.global_prior, out.cells,
                                       step.args.divergence)


@term("dark_replay", weight="dark_replay", when=lambda step: step.targets.replayed > 0,
      help="ours: weight of the squared distance to the mean logits stored with a sample")
def dark_replay(step: Step) -> torch.Tensor:
    """Ours: the mean logits over the draws stay what they were when the sample was stored."""
    targets = step.targets
    assert targets.stored is not None  # there is a weight, so logits are stored
    return objective.dark_replay(step.mean_logits[-targets.replayed:], targets.stored)


@term("stream_recall", weight="stream_recall",
      when=lambda step: step.targets.recalled is not None,
      help="ours: weight of the divergence, on samples of the stream, from what the answering "
           "network said of past classes when the task began")
def stream_recall(step: Step) -> torch.Tensor:
    """Ours: which past class a new sample is like stays what it was."""
    targets = step.targets
    assert targets.recalled is not None  # it takes part in this step
    return objective.stream_recall(step.mean_logits[:len(targets.recalled)], targets.recalled)


@term("guided_attention", weight="guided_attention", fits=lambda plan: plan.attention,
      help="ours: weight of -log of the attention on context of the target's own class")
def guided_attention(step: Step) -> torch.Tensor:
    """Ours: which context a target is like; a row of the context does not count for itself."""
    targets, summary, path = step.targets, step.out.summary, step.net.deterministic
    assert not isinstance(path, MeanPath)  # the plan has an attention
    attention = path.weights(summary, targets.x, targets.sets)  # (B, m)
    rows = torch.arange(len(targets.labels), device=targets.labels.device).unsqueeze(1)
    own = same(targets.labels, targets.labels[targets.context]) & (rows != targets.context)
    if summary.sets is not None:
        own = own & same(targets.sets, summary.sets)
    return objective.guided_attention(attention, own)


@term("task_marginal", weight="task_marginal", fits=lambda plan: plan.has_task,
      help="ours: weight of -log mean_t p(y|x,z^t), the likelihood with the task unknown")
def task_marginal(step: Step) -> torch.Tensor:
    """Ours: train what inference uses."""
    return objective.task_marginal(step.every_head, step.targets.labels, step.present)


@term("head_contrast", weight="head_contrast", fits=lambda plan: plan.has_task,
      help="ours: weight of the pull of wrong heads' outputs towards uniform")
def head_contrast(step: Step) -> torch.Tensor:
    """Ours: a wrong head shall not be sure."""
    present, cell = step.present, step.out.cells.cell
    own = torch.arange(present.shape[0], device=present.device).unsqueeze(1) == cell
    return objective.head_contrast(step.every_head, present & ~own)


@term("gr", weight="gamma", fits=lambda plan: plan.has_global, when=with_memory,
      help="weight of the global regulariser GR (paper: γ); 0 ablates it")
def global_regulariser(step: Step) -> torch.Tensor:
    """Equation 6; the last set is the one with replay."""
    return objective.global_regulariser(step.out.global_posterior[-1],
                                        step.net.memory.anchors(), step.args.divergence,
                                        objective.DISTANCES[step.args.regulariser])


@term("tr", weight="delta", fits=lambda plan: plan.has_task,
      when=with_memory,
      help="weight of the task regulariser TR (paper: δ); 0 ablates it")
def task_regulariser(step: Step) -> torch.Tensor:
    """Equation 7, for past tasks among the replayed samples."""
    out, targets = step.out, step.targets
    shares = out.cells.sizes.to(targets.x) / targets.replayed
    return objective.task_regulariser(out.task_posterior,
                                      step.net.memory.task_latents(out.cells.tasks), step.past,
                                      shares, step.args.divergence,
                                      objective.DISTANCES[step.args.regulariser])
