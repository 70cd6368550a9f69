"""Plain fine-tuning: the lower bound that every method has to beat."""
import torch

from models.utils.continual_model import ContinualModel


class Sgd(ContinualModel):
    """Trains on each task as it comes and does nothing against forgetting."""

    NAME = "sgd"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]
    KEEPS_ONLY_BUFFER = True

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step of cross-entropy on the stream."""
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels)
        loss.backward()
        self.opt.step()
        return loss.item()
