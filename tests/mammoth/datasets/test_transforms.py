"""Permutations, rotations, denormalisation."""
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import utils.torchvision_compat  # noqa: F401
from datasets.transforms.denormalization import DeNormalize
from datasets.transforms.permutation import FixedPermutation, Permutation
from datasets.transforms.rotation import (
    FixedAngle,
    FixedRotation,
    IncrementalRotation,
    Rotation,
    rotate_each,
)

from torchvision.transforms import functional as TF  # isort: skip


def _images(count, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 1, *size), dtype=torch.uint8, generator=generator)


@settings(max_examples=120)
@given(degrees=st.one_of(st.floats(-720, 720), st.integers(-48, 48).map(lambda k: k * 15.0)),
       size=st.sampled_from([(28, 28), (8, 8), (7, 7), (9, 16), (32, 32)]))
def test_fixed_angle_equals_torchvision_rotate_bit_for_bit(degrees, size):
    raw = _images(3, size)
    ours = FixedAngle(degrees).on_batch(raw.float().div(255))
    reference = [TF.to_tensor(TF.rotate(TF.to_pil_image(image), degrees)) for image in raw]
    assert torch.equal(ours, torch.stack(reference))


def test_rotate_each_many_angles_equals_pil_one_by_one():
    angles = np.random.default_rng(0).uniform(0, 360, 1500)
    raw = _images(1500, (28, 28)).squeeze(1).numpy()
    reference = [np.asarray(TF.rotate(TF.to_pil_image(image), float(angle)))
                 for image, angle in zip(raw, angles, strict=True)]
    assert np.array_equal(rotate_each(raw, angles), np.stack(reference))


def test_rotation_of_pil_and_tensor_agree():
    raw = _images(1, (28, 28))[0]
    turn = FixedRotation(seed=3)
    pil = turn(TF.to_pil_image(raw))
    assert torch.equal(TF.to_tensor(pil), turn(raw.float().div(255)))


def test_rotation_draws_angle_in_range_from_its_generator():
    angles = [Rotation(10, 20, np.random.default_rng(i)).degrees for i in range(50)]
    assert min(angles) >= 10 and max(angles) < 20 and len(set(angles)) == 50
    assert Rotation(0, 180, np.random.default_rng(4)).degrees == FixedRotation(4).degrees


def test_incremental_rotation_advances_and_wraps():
    turn = IncrementalRotation(init_deg=-60, increase_per_iteration=90)
    assert turn.angles(3).tolist() == [300.0, 30.0, 120.0]
    raw = _images(1, (8, 8))[0]
    reference = TF.pil_to_tensor(TF.rotate(TF.to_pil_image(raw), 210.0))
    assert torch.equal(turn(raw), reference)
    turn.set_iteration(0)
    assert turn.angles(1)[0] == 300.0


def test_permutation_single_and_batch_agree_with_plain_indexing():
    order = Permutation(16, np.random.default_rng(0))
    images = torch.rand(5, 1, 4, 4)
    reference = torch.stack([i.flatten()[order.perm].view(1, 4, 4) for i in images])
    assert torch.equal(order.on_batch(images), reference)
    assert torch.equal(torch.stack([order(image) for image in images]), reference)
    assert sorted(order.perm.tolist()) == list(range(16))


def test_fixed_permutation_depends_on_seed_only():
    image = torch.rand(1, 5, 5)
    np.random.seed(0)
    first = FixedPermutation(7)(image)
    np.random.rand(3)
    assert torch.equal(first, FixedPermutation(7)(image))
    assert not torch.equal(first, FixedPermutation(8)(image))


def test_transforms_leave_numpys_global_generator_alone():
    before = np.random.get_state()[1].copy()
    Permutation(10)
    Rotation()
    FixedPermutation(1)(torch.rand(1, 3, 3))
    assert np.array_equal(before, np.random.get_state()[1])


def test_denormalize_undoes_normalize():
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    images = torch.rand(4, 3, 6, 6)
    normal = TF.normalize(images, mean, std)
    assert torch.allclose(DeNormalize(mean, std)(normal), images, atol=1e-6)
    assert torch.allclose(DeNormalize(mean, std)(normal[0]), images[0], atol=1e-6)
