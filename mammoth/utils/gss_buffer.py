"""The memory of gradient-based sample selection (Aljundi et al., 2019), greedy variant.

Each row has a score: how similar its gradient was, at most, to those of a few other rows when it
was stored (maximal cosine plus one, between 0 and 2). A batch that is unlike what is stored
(score below 1: its gradient points away from all of them) may replace rows, preferably those
with a high score.
"""
from typing import Any

import torch

from models.utils.gradients import gradient_cosines
from utils.buffer import Buffer as RowBuffer
from utils.buffer import Transform
from utils.evaluate import evaluation_mode

_FIRST_SCORE = 0.1  # of the first batch, when there is nothing to compare with
_TINY = 1e-12


class Buffer(RowBuffer):
    """Rehearsal memory whose rows have gradients in many directions.

    Args:
        buffer_size: number of rows.
        device: where the rows are kept.
        minibatch_size: with how many rows a new batch is compared.
        model: the method; its network and loss give the gradients.
    """

    def __init__(self, buffer_size: int, device: torch.device | str, minibatch_size: int,
                 model: Any = None) -> None:
        super().__init__(buffer_size, device)
        self.minibatch_size = minibatch_size
        self.model = model
        self.scores = torch.zeros(self.buffer_size)
        self.reset_fathom()

    def reset_fathom(self) -> None:
        """Begin a new pass over the rows, in random order, for `get_data`."""
        self._order = torch.randperm(len(self), generator=self.generator)
        self._next = 0

    def drop_cache(self) -> None:
        """Nothing is cached; called by methods written for upstream."""

    def get_data(self, size: int, transform: Transform | None = None,  # type: ignore[override]
                 give_index: bool = False, random: bool = False,
                 device: torch.device | str | None = None) -> tuple[torch.Tensor, ...]:
        """The next rows of the current pass, or random ones.

        Returns:
            (examples, labels[, row numbers]).
        """
        if random:
            rows = torch.randperm(len(self), generator=self.generator)[:size]
        else:
            rows = self._order[self._next:self._next + size]
            self._next = (self._next + len(rows)) % max(len(self._order), 1)
        found = self.get_data_by_index(rows, transform, device)
        return (*found, rows) if give_index else found

    def add_data(self, examples: torch.Tensor,  # type: ignore[override]
                 labels: torch.Tensor) -> None:
        """Offer a batch: it fills free rows, then replaces rows if its gradient is unlike theirs.

        Args:
            examples: (B, C, H, W), not augmented.
            labels: (B,).
        """
        batch = {"examples": examples, "labels": labels}
        self._check(batch, None)
        self._allocate(batch)
        score, own_scores = self.similarity(examples, labels)
        free = min(self.buffer_size - len(self), len(examples))
        slots = list(range(len(self), len(self) + free))
        self.scores[slots] = score
        if score < 1:
            slots += self._replaced(own_scores[free:])
        self._seen += len(examples)
        self._write(slots, batch, None)

    def similarity(self, examples: torch.Tensor,
                   labels: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Compare gradients with those of random rows.

        Returns:
            The score of the whole batch's gradient, and each sample's own score (B,).
        """
        if self.is_empty():
            return _FIRST_SCORE, torch.full((len(labels),), _FIRST_SCORE)
        model = self.model
        stored, stored_labels = self.get_data(self.minibatch_size, random=True,
                                              device=labels.device)
        images = torch.cat((examples, stored))
        normalise = getattr(model, "normalization_transform", None)
        if normalise is not None:
            images = normalise(images)
        with evaluation_mode(model.net), torch.enable_grad():
            of_batch, of_each = gradient_cosines(
                model.net, model.loss, images, torch.cat((labels, stored_labels)), len(labels))
        return float(of_batch.max()) + 1, of_each.max(dim=1).values.cpu() + 1

    def _replaced(self, own_scores: torch.Tensor) -> list[int]:
        """A row for each sample, or -1.

        The candidate row is drawn in proportion to the scores s; the sample with score c takes
        its place with probability s / (s + c). Scores change on the way: one after the other.
        """
        slots = []
        draws = torch.rand(len(own_scores), 2, generator=self.generator, dtype=torch.float64)
        scores = self.scores.double().clamp(min=_TINY)
        for own, (place, chance) in zip(own_scores.tolist(), draws.tolist(), strict=True):
            sums = scores.cumsum(0)
            row = min(int(torch.searchsorted(sums, place * sums[-1])), len(scores) - 1)
            stored = float(scores[row])
            enters = chance < stored / (stored + max(own, 0.0))
            if enters:
                scores[row] = max(own, _TINY)
            slots.append(row if enters else -1)
        self.scores = scores.float()
        return slots

    def empty(self) -> None:
        """Forget everything."""
        super().empty()
        self.scores = torch.zeros(self.buffer_size)
        self.reset_fathom()

    def state_dict(self) -> dict[str, Any]:
        """Everything that `utils.buffer.Buffer.state_dict` has, and the scores."""
        return {**super().state_dict(), "scores": self.scores.clone(),
                "order": self._order.clone(), "next": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the buffer that `state_dict` was taken from."""
        super().load_state_dict(state)
        self.scores, self._order = state["scores"].clone(), state["order"].clone()
        self._next = int(state["next"])
