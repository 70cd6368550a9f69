"""Rows and benchmarks of tables: what they are called and in which order they stand."""
from collections.abc import Iterable
from dataclasses import dataclass

DATASETS = {"seq-cifar10": "S-CIFAR-10", "seq-cifar100": "S-CIFAR-100",
            "seq-tinyimg": "S-Tiny-ImageNet", "perm-mnist": "P-MNIST", "rot-mnist": "R-MNIST",
            "seq-mnist": "S-MNIST", "seq-fmnist": "S-FMNIST",
            "seq-cifar10-small": "S-CIFAR-10 at 16 x 16"}


@dataclass(frozen=True)
class Row:
    """A variant of a method.

    Args:
        name: for readers; the variant's own unless given.
        first: whether it stands in the table that readers see first.
        ablation: whether it stands in tables of its own only.
    """

    variant: str
    name: str = ""
    first: bool = False
    ablation: bool = False


_ROWS = [Row("joint", first=True), Row("sgd", first=True),
         *map(Row, ("ewc_on", "si", "lwf", "lwf_mc")), Row("er", first=True),
         *map(Row, ("gem", "agem", "agem_r")), Row("icarl", first=True),
         *map(Row, ("fdr", "gss", "hal", "rpc", "er_ace")), Row("der", first=True),
         Row("derpp", first=True), Row("cls_er", first=True), Row("xder_rpc")]


def add_rows(*rows: Row, after: str) -> None:
    """Put variants into the order, behind one that is there."""
    new = [row for row in rows if row.variant not in {known.variant for known in _ROWS}]
    place = [row.variant for row in _ROWS].index(after) + 1
    _ROWS[place:place] = new


def name(variant: str) -> str:
    """A row's name for readers."""
    return next((row.name for row in _ROWS if row.variant == variant and row.name), variant)


def place(variant: str) -> tuple[int, str]:
    """Where a row stands: in the paper's order, special settings below their method."""
    order = [row.variant for row in _ROWS]
    method = variant.partition(",")[0]
    return (order.index(method) if method in order else len(order), variant)


def first_rows() -> set[str]:
    """The methods that people ask for first."""
    return {row.variant for row in _ROWS if row.first}


def is_ablation(variant: str) -> bool:
    """Whether a variant belongs to an ablation alone."""
    return any(row.ablation for row in _ROWS if row.variant == variant)


def benchmark(dataset: str) -> str:
    """A benchmark's name for readers."""
    return DATASETS.get(dataset, dataset)


def in_order(datasets: Iterable[str]) -> list[str]:
    """Benchmarks in the paper's order, others after them."""
    order = list(DATASETS)
    return sorted(set(datasets), key=lambda d: (order.index(d) if d in order else len(order), d))
