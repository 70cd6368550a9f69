"""Small networks and sets of samples for the tests."""
import torch
from torch import nn

from npcl_plugin.network import NPNetwork
from npcl_plugin.plan import Plan

FAMILY = {
    "npcl": {},
    "st_npcl": {"has_global": False},
    "anp": {"has_task": False},
    "np": {"has_task": False, "attention": False},
    "cnp": {"has_global": False, "has_task": False, "attention": False},
}


class Features(nn.Module):
    """A backbone that passes its input on."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.classifier = nn.Linear(n_features, n_classes)

    def forward(self, x, returnt="out"):
        return x if returnt == "features" else self.classifier(x)


def network(kind="npcl", n_tasks=3, n_classes=5, n_features=7, **changes):
    """A configured network in float64."""
    sizes = {"latent_size": 8, "n_attention_heads": 2, **FAMILY[kind], **changes}
    if not sizes.get("has_task", True):
        n_tasks = 1
    net = NPNetwork(Features(n_features, n_classes))
    net.configure(Plan(n_tasks=n_tasks, n_classes=n_classes, **sizes))
    return net.double()


def samples(rows=12, n_tasks=3, n_classes=5, n_features=7, seed=0):
    """Features, labels, tasks and context rows that cover every task."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, n_features, generator=g, dtype=torch.float64)
    labels = torch.randint(n_classes, (rows,), generator=g)
    tasks = torch.cat((torch.arange(n_tasks),
                       torch.randint(n_tasks, (rows - n_tasks,), generator=g)))
    context = torch.cat((torch.arange(n_tasks), torch.tensor([n_tasks + 1])))
    return x, labels, tasks, context
