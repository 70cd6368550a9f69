"""Experience Replay (Riemer et al., 2019; Chaudhry et al., 2019).

A reservoir buffer of past samples is replayed beside the stream, in one forward pass.
"""
import torch

from models.utils.rehearsal import RehearsalModel


class Er(RehearsalModel):
    """Cross-entropy on the stream and on replayed samples together."""

    NAME = "er"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]
    KEEPS_ONLY_BUFFER = True

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on stream and replay; the stream's samples then enter the buffer."""
        batch, batch_labels = self.with_replay(inputs, labels)
        self.opt.zero_grad()
        loss = self.loss(self.net(batch), batch_labels)
        loss.backward()
        self.opt.step()
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return loss.item()
