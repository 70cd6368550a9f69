"""What a method says about images: the hook by which one says more than probabilities.

A model may define

    def explain(self, images):       # (B, ...) as evaluation sees them
        return Explanation(probs, draws=..., head=...)

It is called in evaluation mode without gradients, and what it draws from the global generators
is put back. Without the hook, the softmax of `model(images)` is the answer: that is the
definition also where outputs are no logits, such as the negative distances of iCaRL.
"""
from dataclasses import dataclass, replace
from typing import Any

import torch

from utils.evaluate import outputs_of


@dataclass(frozen=True)
class Explanation:
    """What a method says about B images; what it cannot say is None.

    Args:
        probs: (B, C) the answer.
        draws: (S, B, C) probabilities of the Monte-Carlo draws behind the answer.
        head: (B,) number of the task whose head answered.
        novel: (B,) the method's own score of how unlike everything learned an image is, from 0 to
            1; the entropy serves where there is none.
    """

    probs: torch.Tensor
    draws: torch.Tensor | None = None
    head: torch.Tensor | None = None
    novel: torch.Tensor | None = None

    def at(self, temperature: float) -> "Explanation":
        """The same at a temperature: probabilities to the power of 1 / T, summing to 1 again."""
        def tempered(probs: torch.Tensor) -> torch.Tensor:
            tiny = torch.finfo(torch.double).tiny
            return (probs.double().clamp_min(tiny).log() / temperature).softmax(-1)

        if temperature == 1:
            return self
        return replace(self, probs=tempered(self.probs),
                       draws=None if self.draws is None else tempered(self.draws))

    def among(self, first: int, last: int) -> "Explanation":
        """The same with the classes from `first` to before `last` alone in the race."""
        def share(probs: torch.Tensor) -> torch.Tensor:
            part = probs.double()[..., first:last].clamp_min(torch.finfo(torch.double).tiny)
            return part / part.sum(-1, keepdim=True)

        return Explanation(share(self.probs), None if self.draws is None else share(self.draws),
                           self.head, self.novel)


def explain(model: Any, images: torch.Tensor, first: int, last: int,
            task: int | None) -> Explanation:
    """What a method says about images, among the classes from `first` to before `last`.

    Args:
        images: (B, ...) as evaluation sees them.
        task: passed to methods that have to be told it.
    """
    if hasattr(model, "explain"):
        return model.explain(images).at(model.temperature).among(first, last)
    outputs = outputs_of(model, images, task)
    return Explanation(outputs.double()[:, first:last].softmax(1))
