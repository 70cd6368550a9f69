"""Sequential digits: scikit-learn's small digits in five tasks of two; needs no download."""
from datasets.utils.builtin import InMemoryDataset
from datasets.utils.digits import DigitsImages


class SequentialDigits(DigitsImages, InMemoryDataset):
    """Class-incremental digits, 5 tasks x 2 classes of about 290 images."""

    NAME = "seq-digits"
    SETTING = "class-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 2
