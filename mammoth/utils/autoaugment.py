"""AutoAugment's policy for CIFAR-10 under the name that upstream's method files use."""
import utils.torchvision_compat  # noqa: F401, I001  (before torchvision)
from torchvision.transforms import AutoAugment, AutoAugmentPolicy


class CIFAR10Policy(AutoAugment):
    """Cubuk et al. (2019), as torchvision has it; for PIL images or uint8 tensors."""

    def __init__(self) -> None:
        super().__init__(AutoAugmentPolicy.CIFAR10)
