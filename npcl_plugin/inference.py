"""Answering without a task label: the context is the buffer, a head is chosen by uncertainty.

Everything that depends on the weights and the buffer only (latents, keys, values) is computed
once and kept until one of them changes; a test image costs one attention over the context.
"""
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch.nn import functional as F

from npcl_plugin.answers import (
    HeadInference,
    Prediction,
    additive_answer,
    answer,
    answer_by_class,
)
from npcl_plugin.context import Context
from npcl_plugin.context_features import ContextFeatures
from npcl_plugin.contract import evaluation_mode
from npcl_plugin.input_memory import InputMemory
from npcl_plugin.looks import Looks
from npcl_plugin.network import NPNetwork
from npcl_plugin.plan import Draws
from npcl_plugin.stream import ClassMeans
from npcl_plugin.versions import Versions

# Features of a context of so many samples have half a say in the score of novelty.
_FEW_SAMPLES = 20
NoveltyBy = Literal["features", "looks"]


def distance(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """How far features are from all that was seen, (B,): the least angle ÷ a right angle.

    Lengths do not count: a faint image of something known is no novelty.

    Args:
        x: (B, F).
        seen: (m, F).
    """
    nearest = (F.normalize(x) @ F.normalize(seen).t()).amax(1)
    return nearest.clamp(0, 1).acos() * (2 / math.pi)


class Prepared(NamedTuple):
    """A context, ready to answer."""

    z: torch.Tensor  # (S, T', O) draws of every head
    represent: Callable[[torch.Tensor], torch.Tensor]  # features (B, F) -> r (B, O)
    seen: torch.Tensor | None  # (m, F) features of the context
    looks: Looks | None = None  # of the context's images, if they are asked for


@torch.no_grad()
def prepare(net: NPNetwork, context: Context | None, draws: Draws, seed: int) -> Prepared:
    """Encode a context; None if there is none.

    Heads without a sample in it are drawn from the distribution memory, a standard normal if
    nothing is recorded. The draws depend on `seed` only, never on a global generator.
    """
    generator = torch.Generator().manual_seed(seed)
    z = net.latent.recall(net.memory, max(int(net.n_heads), 1), draws, generator)  # (S, T', O)
    if context is None:
        return Prepared(z, lambda x: x.new_zeros(len(x), net.plan.latent_size), None)
    encoding = net.encode(*context)
    _, z[:, encoding.cells.tasks] = net.latent.sample(encoding, draws, generator)
    summary = net.deterministic.summarise(context.x, context.labels)
    return Prepared(z, lambda x: net.deterministic.attend(summary, x), context.x)


def probabilities(net: NPNetwork, ready: Prepared, mode: HeadInference,
                  x: torch.Tensor) -> torch.Tensor:
    """The answer (B, C) alone to images with features (B, F), by the shortest way.

    The network is in evaluation mode.
    """
    r = ready.represent(x)
    probs = additive_answer(*net.additive_logits(x, r, ready.z), mode) \
        if net.decoder.additive else None
    if probs is None and mode in ("entropy", "mixture") and not net.plan.residual_decoder:
        probs = net.decoder.answers(x, r, ready.z, all_heads=mode == "mixture")
    if probs is not None:
        return probs
    logits = net.decode(x, r, ready.z)  # (T', S, B, C)
    probs = answer_by_class(logits.mT, mode)
    return answer(logits, mode).probs if probs is None else probs


def novelty_by_looks(images: torch.Tensor, probs: torch.Tensor,
                     known: Looks | None) -> torch.Tensor | None:
    """How novel images (B, K, H, W) with answers (B, C) are, (B,) from 0 to 1.

    How unlike the context they look, times the answer's entropy as a share of the largest one.
    None while nothing is known.
    """
    if known is None:
        return None
    entropy: torch.Tensor = torch.special.entr(probs).sum(1) / math.log(probs.shape[1])
    return known.unlikeness(images) * entropy


class Predictor:
    """The network with its buffer as context. Asking it changes nothing, here or in the network.

    Args:
        net: configured.
        find_buffer: gives the buffer of the moment (loading a checkpoint may replace it); it
            has `examples`, `labels`, `task_labels` once it holds something.
        normalise: raw images of the buffer -> what the network is evaluated on.
        draws: N and M.
        mode: which head answers.
        seed: of the draws.
        context_size: rows of the buffer to use, all by default.
        class_means: what is kept of the whole stream, as more context (`--stream_context`).
        input_memory: what inputs look like (`--input_memory`).
        novelty_by: what tells novel images; see `novelty`.
    """

    def __init__(self, net: NPNetwork, find_buffer: Callable[[], Any],
                 normalise: Callable[[torch.Tensor], torch.Tensor], *, draws: Draws,
                 mode: HeadInference, seed: int, context_size: int | None = None,
                 class_means: ClassMeans | None = None,
                 input_memory: InputMemory | None = None,
                 novelty_by: NoveltyBy = "features") -> None:
        self.net, self.find_buffer, self.normalise = net, find_buffer, normalise
        self.draws, self.mode, self.seed = draws, mode, seed
        self.context_size, self.class_means = context_size, class_means
        self.input_memory, self.novelty_by = input_memory, novelty_by
        # Of the network, which keeps its parts; listing them takes long.
        self._layers = list(net.modules())
        self._tensors: list[torch.Tensor] = []
        self._versions = Versions()
        self._key: tuple[Any, ...] | None = None
        self._prepared: Prepared | None = None
        self._features = ContextFeatures(net, normalise)

    def forget(self) -> None:
        """Drop what is kept.

        Done by itself when weights or buffer change, but not when a layer is replaced by another.
        """
        self._key = self._prepared = None
        self._versions.forget()
        self._features.forget()

    def state_dict(self) -> dict[str, Any]:
        """The seed, from which every preparation starts, and the context's features if known."""
        return {"seed": self.seed, "features": self._features.state_dict(self.find_buffer())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Draw as the predictor did that `state_dict` was taken from."""
        self.forget()
        self.seed = int(state["seed"])
        self._features.load_state_dict(state.get("features", {}))

    def prepared(self, draws: Draws | None = None) -> Prepared:
        """The context as it is now, from the cache if nothing changed."""
        draws = draws or self.draws
        key = (self.find_buffer().num_seen_examples, draws, self.seed, self.context_size)
        if self._prepared is None or key != self._key \
                or not self._versions.same([*self._tensors, *self._sources()]):
            self._tensors = [*self.net.parameters(), *self.net.buffers()]
            self._prepared = prepare(self.net, self.context(self.context_size), draws, self.seed)
            if self.novelty_by == "looks":
                self._prepared = self._prepared._replace(looks=self._looks())
            self._key = key
            self._versions.remember([*self._tensors, *self._sources()])
        return self._prepared

    def _sources(self) -> list[torch.Tensor]:
        """Where the context comes from, besides the network."""
        examples = getattr(self.find_buffer(), "examples", None)
        means = [] if self.class_means is None else [self.class_means.sums]
        return means if examples is None else [examples, *means]

    @torch.no_grad()
    def context(self, size: int | None = None) -> Context | None:
        """The buffer as the network sees it in evaluation mode; None while it is empty.

        Args:
            size: this many random rows of it; all by default.
        """
        known = None if self.class_means is None else self.class_means.context()
        if known is not None:
            with evaluation_mode(self.net):
                known = known._replace(x=self.net.features(known.x))
        buffer = self.find_buffer()
        if buffer.is_empty() or size == 0:
            return known
        rows = self._rows(buffer, size)
        device = next(self.net.parameters()).device
        found = Context(self._features(buffer, rows), buffer.labels[rows].to(device),
                        buffer.task_labels[rows].to(device))
        return found if known is None else Context(*map(torch.cat, zip(known, found, strict=True)))

    def _rows(self, buffer: Any, size: int | None) -> torch.Tensor:
        """Numbers of the buffer's rows that are the context, (m,)."""
        rows = torch.arange(len(buffer))
        if size is not None and size < len(rows):
            generator = torch.Generator().manual_seed(self.seed)
            rows = torch.randperm(len(rows), generator=generator)[:size]
        return rows.to(buffer.examples.device)

    def _looks(self) -> Looks | None:
        """How the context's images look; None while there are none."""
        buffer = self.find_buffer()
        if buffer.is_empty() or self.context_size == 0:
            return None
        rows = self._rows(buffer, self.context_size)
        images = self.normalise(buffer.examples[rows].to(next(self.net.parameters()).device))
        return Looks.of(images, buffer.labels[rows].to(images.device))

    def _evaluating(self) -> AbstractContextManager[None]:
        """The network in evaluation mode, at no cost where it is already."""
        training = any(module.training for module in self._layers)
        return evaluation_mode(self.net) if training else nullcontext()

    @torch.no_grad()
    def probabilities(self, images: torch.Tensor) -> torch.Tensor:
        """The answer (B, C) alone, as `__call__` has it, by the shortest way."""
        with self._evaluating():
            return probabilities(self.net, self.prepared(), self.mode, self.net.features(images))

    @torch.no_grad()
    def __call__(self, images: torch.Tensor, draws: Draws | None = None,
                 heads: torch.Tensor | None = None) -> Prediction:
        """Answer a batch of images (B, ...); see `answer` for `heads`."""
        with self._evaluating():
            ready = self.prepared(draws)
            x = self.net.features(images)  # (B, F)
            said = answer(self.net.decode(x, ready.represent(x), ready.z), self.mode, heads)
            if self.novelty_by == "looks":
                return replace(said, distance=novelty_by_looks(images, said.probs, ready.looks))
            return replace(said, distance=self.novelty(images, x, ready))

    def novelty(self, images: torch.Tensor, x: torch.Tensor, ready: Prepared) \
            -> torch.Tensor | None:
        """How unlike everything known images (B, ...) with features (B, F) are, (B,) from 0 to 1.

        The unlikeness of the inputs times the distance of the features to those of the context's
        m samples, to the power of m / (m + 20): a few samples say little. A model may have one,
        both or, if it knows nothing yet, none of the two.
        """
        of_features = None if ready.seen is None else distance(x, ready.seen)
        of_inputs = None if self.input_memory is None else self.input_memory.unlikeness(images)
        if of_features is None or of_inputs is None:
            return of_inputs if of_features is None else of_features
        count = 0 if ready.seen is None else len(ready.seen)
        return of_inputs * of_features ** (count / (count + _FEW_SAMPLES))
