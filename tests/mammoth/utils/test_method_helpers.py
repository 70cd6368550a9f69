"""The helpers that upstream's method files import, against closed forms."""
import math

import numpy as np
import pytest
import torch
from torch.optim import SGD

from engine.errors import UsageError
from utils.augmentations import (
    CustomRandomCrop,
    CustomRandomHorizontalFlip,
    DoubleCompose,
    DoubleTransform,
    RepeatedTransform,
    cutmix_data,
    strong_aug,
)
from utils.autoaugment import CIFAR10Policy
from utils.bmm import BetaMixture1D
from utils.conditional_bn import ConditionalBatchNorm1d, ConditionalBatchNorm2d
from utils.distributed import CustomDP, make_dp
from utils.kornia_utils import KorniaMultiAug, to_kornia_transform
from utils.mixup import mixup
from utils.schedulers import CosineSchedule, CosineSchedulerWithLinearWarmup
from utils.simclrloss import SupConLoss
from utils.spkdloss import SPKDLoss
from utils.status import progress_bar
from utils.triplet import batch_hard_triplet_loss, negative_only_triplet_loss


def test_cutmix_pastes_a_rectangle_and_counts_its_pixels():
    np.random.seed(0)
    torch.manual_seed(0)
    images = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 3, 8, 6).clone()
    labels = torch.arange(4)
    for _ in range(20):
        mixed, own, pasted, share = cutmix_data(images, labels, force=True)
        is_own = mixed == own.view(4, 1, 1, 1)
        assert (is_own | (mixed == pasted.view(4, 1, 1, 1))).all()
        other = own != pasted
        assert torch.allclose(is_own[other].float().mean((1, 2, 3)), torch.tensor(share))
    assert (images == labels.view(4, 1, 1, 1)).all()  # the given batch is left alone
    assert cutmix_data(images, labels, cutmix_prob=0.0)[3] == 1.0


def test_mixup_is_a_convex_combination_with_the_larger_share_first():
    ones, zeros = torch.ones(5, 2, 3), torch.zeros(5, 2, 3)
    images, labels = mixup([(ones, zeros), (torch.ones(5, 4), torch.zeros(5, 4))], 0.3)
    assert (images >= 0.5).all() and (images == images[:, :1, :1]).all()
    assert torch.equal(images[:, 0, 0], labels[:, 0])
    assert mixup([(ones, zeros)], 1, force_lambda=0.25).unique().tolist() == [0.25]


def test_spkd_of_orthogonal_and_of_equal_features():
    orthogonal, equal = torch.eye(4), torch.ones(4, 7)
    gap = 4 * ((1 - 0.5) ** 2 + 3 * 0.5 ** 2)  # unit rows (1, 0, 0, 0) and (½, ½, ½, ½)
    assert SPKDLoss("sum")(orthogonal, equal).item() == pytest.approx(gap)
    assert SPKDLoss("batchmean")(orthogonal, equal).item() == pytest.approx(gap / 16)
    assert SPKDLoss("sum")(3 * orthogonal, orthogonal).item() == pytest.approx(0, abs=1e-6)


def reference_contrastive(features, same, temperature, anchors):
    """The definition, with loops."""
    count, views = features.shape[:2]
    everything = [(i, v) for i in range(count) for v in range(views)]
    total = 0.0
    for i in range(count):
        for v in anchors:
            others = [o for o in everything if o != (i, v)]
            scores = [features[i, v] @ features[o] / temperature for o in others]
            normaliser = torch.logsumexp(torch.stack(scores), 0)
            mine = [s - normaliser for s, o in zip(scores, others, strict=True) if same[i][o[0]]]
            total += -sum(mine) / len(mine) / len(anchors)
    return total


@pytest.mark.parametrize("mode, anchors", [("all", (0, 1, 2)), ("one", (0,))])
@pytest.mark.parametrize("labels", [None, [0, 1, 0, 1]])
def test_contrastive_loss_agrees_with_its_definition(mode, anchors, labels):
    features = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1))
    same = [[i == j if labels is None else labels[i] == labels[j] for j in range(4)]
            for i in range(4)]
    expected = reference_contrastive(features, same, 0.5, anchors)
    given = None if labels is None else torch.tensor(labels)
    for reduction, share in (("sum", 1.0), ("mean", 0.25)):
        loss = SupConLoss(temperature=0.5, base_temperature=0.5, contrast_mode=mode,
                          reduction=reduction)
        assert loss(features, given).item() == pytest.approx(share * expected.item(), rel=1e-5)
    masked = SupConLoss(0.5, mode, 0.25)(features, mask=torch.tensor(same))
    assert masked.item() == pytest.approx(2 * expected.item() / 4, rel=1e-5)


def test_contrastive_loss_has_finite_gradients_and_refuses_nonsense():
    features = torch.randn(3, 2, 4, requires_grad=True)
    SupConLoss()(features).backward()
    assert features.grad.isfinite().all()
    with pytest.raises(ValueError, match="but got both"):
        SupConLoss()(features, torch.zeros(3), torch.eye(3))
    with pytest.raises(ValueError, match="3 labels"):
        SupConLoss()(features, torch.zeros(2))


def test_triplet_losses_on_a_line():
    points = torch.tensor([[0.0], [1.0], [3.0]])
    labels = torch.tensor([0, 0, 1])
    # squared distances: 0-1: 1, 0-2: 9, 1-2: 4; the last point has no other positive than itself
    violations = torch.tensor([1 - 9.0, 1 - 4.0, 0 - 4.0]) + 5
    assert batch_hard_triplet_loss(labels, points, 1, margin=5, margin_type="hard").item() == \
        pytest.approx(violations.relu().mean().item())
    assert batch_hard_triplet_loss(labels, points, 1, margin=5).item() == \
        pytest.approx(violations.exp().log1p().mean().item())
    apart = torch.tensor([-9.0, -4.0, -4.0])
    assert negative_only_triplet_loss(labels, points, 1).item() == \
        pytest.approx(apart.exp().log1p().mean().item())
    assert batch_hard_triplet_loss(torch.zeros(3), points, 2) is None


@pytest.mark.parametrize("kind, shape", [(ConditionalBatchNorm1d, (6, 3)),
                                         (ConditionalBatchNorm2d, (6, 3, 4, 4))])
def test_conditional_norm_scales_by_condition_and_can_stop_gradients(kind, shape):
    layer = kind(3, 2)
    with torch.no_grad():
        layer.embed.weight[0] = torch.tensor([1.0, 1, 1, 0, 0, 0])
        layer.embed.weight[1] = torch.tensor([2.0, 2, 2, 5, 5, 5])
    x, tasks = torch.randn(*shape), torch.tensor([0, 1, 0, 1, 0, 1])
    plain = layer.bn(x)
    out = layer(x, tasks, flag_stop_grad=tasks == 1)
    assert torch.allclose(out[::2], plain[::2], atol=1e-5)
    assert torch.allclose(out[1::2], 2 * plain[1::2] + 5, atol=1e-5)
    out.sum().backward()
    assert layer.embed.weight.grad[0, 3:].ne(0).all() and not layer.embed.weight.grad[1].any()


def test_beta_mixture_finds_two_heaps():
    rng = np.random.default_rng(0)
    low, high = rng.beta(2, 20, 600), rng.beta(20, 2, 400)
    mixture = BetaMixture1D(max_iters=30)
    mixture.fit(np.concatenate([low, high]))
    means = mixture.alphas / (mixture.alphas + mixture.betas)
    assert means == pytest.approx([2 / 22, 20 / 22], abs=0.03)
    assert mixture.weight == pytest.approx([0.6, 0.4], abs=0.03)
    assert mixture.predict(np.array([0.05, 0.95])).tolist() == [False, True]
    mixture.create_lookup(1)
    assert mixture.look_lookup(np.array([0.0, 0.5, 1.0])) == pytest.approx(
        [0, mixture.posterior(np.array([0.5]), 1)[0], 1], abs=0.1)


def test_outliers_and_scale_of_the_mixture():
    values, low, high = BetaMixture1D.outlier_remove(np.arange(101.0))
    assert (values.min(), values.max()) == (5, 95) and high == 95 and low == pytest.approx(5, 1e-4)
    scaled = BetaMixture1D.normalize(np.array([0.0, 50.0, 100.0]), low, high)
    assert scaled == pytest.approx([1e-3, 0.5, 1 - 1e-3], abs=1e-5)


def rates(scheduler, steps):
    found = []
    for _ in range(steps):
        found.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return found


def test_schedules_follow_their_formulas():
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    quarter = [2 * math.cos(0.495 * math.pi * step / 4) for step in range(5)]
    assert rates(CosineSchedule(optimizer, K=5), 5) == pytest.approx(quarter)
    warm = [1.0, 2.0, 2.0, 1.0, 0.0]  # of 3: two steps up, then half a cosine over two
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=9.0)
    assert rates(CosineSchedulerWithLinearWarmup(optimizer, 2.0, 2, 4), 5) == pytest.approx(warm)
    with pytest.raises(UsageError, match="--n_epochs"):
        CosineSchedule(optimizer, K=1)


def test_image_and_maps_are_cut_and_mirrored_together():
    np.random.seed(0)
    image = torch.arange(64.0).view(1, 8, 8)
    small = torch.nn.functional.avg_pool2d(image, 2)[0]  # (4, 4), one cell for 2 x 2 pixels
    crop = CustomRandomCrop((8, 8), padding=2)
    for _ in range(10):
        cut, (cut_map,) = crop(image, [small])
        assert cut.shape == image.shape and cut_map.shape == small.shape
    flipped, (flipped_map,) = CustomRandomHorizontalFlip(1.0)(image, [small])
    assert torch.equal(flipped, image.flip(-1)) and torch.equal(flipped_map, small.flip(-1))
    both = DoubleCompose([CustomRandomHorizontalFlip(1.0), DoubleTransform(lambda x: x + 1)])
    out, (out_map,) = both(image, [small])
    assert torch.equal(out, image.flip(-1) + 1) and torch.equal(out_map, small.flip(-1))
    whole = CustomRandomCrop((8, 8), padding=0, resize=True)(image, [small])
    assert torch.equal(whole[0], image) and torch.equal(whole[1][0], small)


def test_several_views_of_a_batch():
    images = torch.rand(3, 3, 8, 8)
    views = RepeatedTransform([lambda x: x, lambda x: 2 * x])(images)
    assert torch.equal(views, torch.stack([images, 2 * images]))
    many = KorniaMultiAug(4, [to_kornia_transform([torch.nn.Identity()]) or (lambda x: x + 1)])
    assert torch.equal(many(images), (images + 1).expand(4, *images.shape))
    strong = strong_aug((8, 8), [0.0] * 3, [1.0] * 3)
    assert strong(images).shape == images.shape
    assert strong_aug(8, [0.0], [1.0])(torch.rand(2, 1, 8, 8)).shape == (2, 1, 8, 8)


def test_the_rest_is_there(capsys):
    from PIL import Image

    assert CIFAR10Policy()(Image.new("RGB", (8, 8))).size == (8, 8)
    net = torch.nn.Linear(2, 3)
    wrapped = CustomDP(net)
    assert wrapped.in_features == 2 and list(wrapped.state_dict()) == ["weight", "bias"]
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="GPU"):
            make_dp(net)
    for step in range(3):
        progress_bar(step, 3, 1, "G", 0.5)
    assert capsys.readouterr().out == ""
