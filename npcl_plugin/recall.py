"""Recall: what was known when a task began, asked about the task's own samples.

A buffer shows a few samples of the past, learned by heart. The stream shows thousands of others.
They are of new classes, but which past class each of them is like is knowledge too, and it is
lost with the features that it rests on. So the network that answered when the task began is kept
until the next one, and the network in training shall agree with it about past classes (Li and
Hoiem, 2016: learning without forgetting).
"""
import copy
from typing import Any

import torch

from npcl_plugin.answers import HeadInference
from npcl_plugin.context import Context
from npcl_plugin.inference import Prepared, prepare, probabilities
from npcl_plugin.network import NPNetwork
from npcl_plugin.objective import RECALL_TEMPERATURE
from npcl_plugin.plan import Draws


class Recall:
    """A network and its context as they were; it knows nothing before there is a context.

    It has `state_dict`, so the harness's checkpoints keep it.

    Args:
        net: the network that answers, of which copies are made.
        mode: which head answers.
        draws: N and M.
        seed: of the draws.
    """

    def __init__(self, net: NPNetwork, mode: HeadInference, draws: Draws, seed: int) -> None:
        self.current, self.mode, self.draws, self.seed = net, mode, draws, seed
        self.net: NPNetwork | None = None
        self.context: Context | None = None
        self._ready: Prepared | None = None

    def begin_task(self, context: Context | None) -> None:
        """Keep the network as it is now, with what its context is now."""
        if context is not None:
            self._keep(context)

    def _keep(self, context: Context) -> None:
        self.net = copy.deepcopy(self.current).requires_grad_(False).eval()
        self.context = context
        self._ready = None

    @torch.no_grad()
    def log_probs(self, images: torch.Tensor) -> torch.Tensor | None:
        """Log-probabilities (B, C) among the classes of the context, -inf for others.

        At the temperature of `objective.stream_recall`. None while nothing is known.
        """
        if self.net is None or self.context is None:
            return None
        if self._ready is None:
            self._ready = prepare(self.net, self.context, self.draws, self.seed)
        probs = probabilities(self.net, self._ready, self.mode, self.net.features(images))
        logits = probs.clamp_min(torch.finfo(probs.dtype).tiny).log() / RECALL_TEMPERATURE
        known = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
        known[self.context.labels] = True
        return logits.masked_fill(~known, -torch.inf).log_softmax(1)

    def numbers(self) -> int:
        """How many numbers are stored beside the weights: the features of the context."""
        return 0 if self.context is None else self.context.x.numel()

    def state_dict(self) -> dict[str, Any]:
        """Weights and context; empty while nothing is known."""
        if self.net is None or self.context is None:
            return {}
        return {"weights": dict(self.net.state_dict()), "context": tuple(self.context)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what the recall did that `state_dict` was taken from."""
        self.net = self.context = self._ready = None
        if state:
            device = next(self.current.parameters()).device
            self._keep(Context(*(part.to(device) for part in state["context"])))
            assert self.net is not None  # just kept
            self.net.load_state_dict(state["weights"])
