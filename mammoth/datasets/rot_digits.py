"""Rotated digits: five tasks on scikit-learn's small digits, each at its own angle."""
from datasets.utils.builtin import RotatedDataset
from datasets.utils.digits import DigitsImages


class RotatedDigits(DigitsImages, RotatedDataset):
    """Domain-incremental digits, 5 tasks x 10 classes; needs no download."""

    NAME = "rot-digits"
    SETTING = "domain-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 10
