"""A-GEM with a reservoir (Buzzega et al., 2020): no task boundaries needed."""
from models.agem import AGem as _AGem


class AGemr(_AGem):
    """A-GEM whose memory is a uniform sample of the stream."""

    NAME = "agem_r"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        """A-GEM's step; the stream's samples then enter the reservoir."""
        loss = super().observe(inputs, labels, not_aug_inputs, epoch)
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return loss

    def end_task(self, dataset):
        """The reservoir is filled on the way."""
