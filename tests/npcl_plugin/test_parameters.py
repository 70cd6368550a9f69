"""Parameter counts, beside the paper's (table 4)."""
import pytest

from backbone import get_backbone_class
from npcl_plugin.network import NPNetwork
from npcl_plugin.plan import Plan

# (backbone, tasks, classes, plan) -> the paper's count of NPCL and of ER, and ours of NPCL.
SETTINGS = {
    "S-CIFAR-10": ("resnet18", 5, 10, (256, 2, True, 4), 19_397_706, 11_173_962),
    "S-CIFAR-100": ("resnet18", 10, 100, (256, 2, True, 4), 24_091_556, 11_220_132),
    "P/R-MNIST": ("mnistmlp", 20, 10, (32, 0, False, 2), 162_166, 89_610),
}


def expected_process(features, tasks, classes, size, depth, norm):
    """Counted by hand, part by part."""
    def mlp(n_in, n_out, layers):
        total, width = 0, n_in
        for _ in range(layers):
            total += width * size + size + (2 * size if norm else 0)
            width = size
        return total + width * n_out + n_out

    square = size * size + size
    sample = mlp(features + classes, size, depth)
    taskwise = 4 * square + 2 * size
    across = 4 * square + 2 * size
    psi_global, psi_task = 2 * mlp(size, size, depth), 2 * mlp(2 * size, size, depth)
    cross = 2 * (features * size + size) + 2 * square + 2 * size
    return (2 * sample + across + psi_global + across + cross
            + tasks * (taskwise + psi_task) + mlp(features + 2 * size, classes, depth))


@pytest.mark.parametrize("setting", SETTINGS)
def test_parameters_are_what_the_parts_add_up_to(setting):
    name, tasks, classes, (size, depth, norm, heads), paper, paper_er = SETTINGS[setting]
    net = NPNetwork(get_backbone_class(name)(num_classes=classes))
    backbone = sum(p.numel() for p in net.parameters())
    assert backbone == paper_er
    net.configure(Plan(n_tasks=tasks, n_classes=classes, latent_size=size, depth=depth, norm=norm,
                       n_attention_heads=heads, decoder_depth=depth))
    process = sum(p.numel() for p in net.process_parameters)
    print(f"{setting}: backbone {backbone:,}, ours {backbone + process:,}, paper {paper:,}")
    assert process == expected_process(net.n_features, tasks, classes, size, depth, norm)
    assert sum(p.numel() for p in net.parameters()) == backbone + process


@pytest.mark.parametrize("classes", [10, 100])
def test_npcl_plus_trains_a_fifth_more_than_resnet_at_most(classes):
    net = NPNetwork(get_backbone_class("resnet18")(num_classes=classes))
    backbone = sum(p.numel() for p in net.parameters())
    net.configure(Plan(n_tasks=1, n_classes=classes, latent_size=256, depth=2, norm=True,
                       has_task=False, decoder_depth=2))
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    print(f"{classes} classes: {trained:,}, {trained / backbone - 1:.1%} above the backbone")
    assert backbone < trained <= 1.2 * backbone


@pytest.mark.parametrize("residual", [False, True])
def test_the_backbones_classifier_is_trained_where_it_has_a_say(residual):
    net = NPNetwork(get_backbone_class("mnistmlp")(num_classes=4))
    net.configure(Plan(n_tasks=1, n_classes=4, residual_decoder=residual))
    assert {p.requires_grad for p in net.backbone.classifier.parameters()} == {residual}
