"""Sizes and parts of a neural process, and how often it is drawn from."""
from dataclasses import dataclass
from typing import Literal, NamedTuple

DecoderWidth = Literal["latents", "features"]
Encoders = Literal["paper", "release"]
GlobalDraws = Literal["set", "task"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes and parts of a neural process.

    Args:
        n_tasks: T, number of task heads (1 in anp, np, cnp and joint training).
        n_classes: C.
        latent_size: O, |o| of the paper.
        depth: hidden layers of each perceptron of the encoders.
        norm: LayerNorm after each hidden layer.
        n_attention_heads: of each attention; divides O.
        has_global: z^G exists (not in st_npcl and cnp).
        has_task: z^t exists (not in anp, np and cnp).
        attention: rows attend to each other (not in np and cnp, which take means).
        residual_decoder: add the backbone's own classifier to the logits (our extension).
        decoder_depth: hidden layers of the decoder.
        draws_per_target: how many draws such a decoder decodes a target under in training.
        decoder_width: whether these are as wide as the latents or as the features.
        encoders: as the paper describes them, or as the authors' code has them.
        global_draws: one z^G for all tasks of a set, or one for each.
        n_anchors: how many global distributions GR may hold z^G to; 1: the last.
        compiled: by functions in C what can be (`kernels`).
    """

    n_tasks: int
    n_classes: int
    latent_size: int = 32
    depth: int = 1
    norm: bool = False
    n_attention_heads: int = 4
    has_global: bool = True
    has_task: bool = True
    attention: bool = True
    residual_decoder: bool = False
    decoder_depth: int = 1
    draws_per_target: int = 10
    decoder_width: DecoderWidth = "latents"
    encoders: Encoders = "paper"
    global_draws: GlobalDraws = "set"
    n_anchors: int = 1
    compiled: bool = False

    @property
    def attends_compiled(self) -> bool:
        """Whether attention is among that."""
        return self.compiled and self.attention and self.encoders == "paper"

    @property
    def ends_linear(self) -> bool:
        """Whether a perceptron of the encoders ends in a linear layer."""
        return self.encoders == "paper"


class Draws(NamedTuple):
    """How many Monte-Carlo samples: N of z^G, M of z^t for each."""

    n_global: int
    n_task: int = 1

    @property
    def total(self) -> int:
        """S."""
        return self.n_global * self.n_task
