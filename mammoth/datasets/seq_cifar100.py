"""Sequential CIFAR-100: a hundred classes in ten tasks of ten."""
import torch

from datasets.utils.builtin import ColourDataset
from datasets.utils.cifar import CIFAR100, load_cifar
from datasets.utils.pipelines import augmented, normalised

_NAMES = (
    "apple, aquarium fish, baby, bear, beaver, bed, bee, beetle, bicycle, bottle, bowl, "
    "boy, bridge, bus, butterfly, camel, can, castle, caterpillar, cattle, chair, "
    "chimpanzee, clock, cloud, cockroach, couch, crab, crocodile, cup, dinosaur, dolphin, "
    "elephant, flatfish, forest, fox, girl, hamster, house, kangaroo, keyboard, lamp, lawn "
    "mower, leopard, lion, lizard, lobster, man, maple tree, motorcycle, mountain, mouse, "
    "mushroom, oak tree, orange, orchid, otter, palm tree, pear, pickup truck, pine tree, "
    "plain, plate, poppy, porcupine, possum, rabbit, raccoon, ray, road, rocket, rose, sea, "
    "seal, shark, shrew, skunk, skyscraper, snail, snake, spider, squirrel, streetcar, "
    "sunflower, sweet pepper, table, tank, telephone, television, tiger, tractor, train, "
    "trout, tulip, turtle, wardrobe, whale, willow tree, wolf, woman, worm")


class SequentialCIFAR100(ColourDataset):
    """Class-incremental CIFAR-100, 10 tasks x 10 classes."""

    NAME = "seq-cifar100"
    SETTING = "class-il"
    N_TASKS = 10
    N_CLASSES_PER_TASK = 10
    N_CLASSES = 100
    SIZE = (32, 32)
    DEFAULTS = {"backbone": "resnet18", "batch_size": 32, "n_epochs": 50,
                "lr_scheduler": "multisteplr", "lr_milestones": [35, 45],
                "sched_multistep_lr_gamma": 0.1}
    MEAN = (0.5071, 0.4867, 0.4408)
    STD = (0.2675, 0.2565, 0.2761)
    TRANSFORM = augmented(32, MEAN, STD)
    TEST_TRANSFORM = normalised(MEAN, STD)
    CLASS_NAMES = tuple(_NAMES.split(", "))

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 32, 32, 3) uint8 and labels (N,)."""
        images, labels = load_cifar(CIFAR100, train)
        return self.at_size(train, images), labels
