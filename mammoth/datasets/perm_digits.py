"""Permuted digits: five tasks on scikit-learn's small digits, each with its own permutation."""
from datasets.utils.builtin import PermutedDataset
from datasets.utils.digits import DigitsImages


class PermutedDigits(DigitsImages, PermutedDataset):
    """Domain-incremental digits, 5 tasks x 10 classes; needs no download."""

    NAME = "perm-digits"
    SETTING = "domain-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 10
