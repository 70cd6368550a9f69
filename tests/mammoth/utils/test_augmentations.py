"""Batched augmentation equals torchvision's functions applied image by image."""
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import utils.torchvision_compat  # noqa: F401
from utils import augmentations as aug

from torchvision import transforms  # isort: skip
from torchvision.transforms import functional as TF  # isort: skip

MEAN, STD = (0.49, 0.48, 0.44), (0.24, 0.25, 0.26)


def _bytes(count=6, size=(32, 32), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, *size), dtype=torch.uint8, generator=generator)


def _floats(*args, **kwargs):
    return _bytes(*args, **kwargs).float().div(255)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**20), height=st.integers(5, 20), width=st.integers(5, 20),
       padding=st.integers(0, 4))
def test_crop_batch_random_places_equals_torchvision_pad_and_crop(seed, height, width, padding):
    generator = torch.Generator().manual_seed(seed)
    images = _floats(5, (height, width), seed)
    size = (height - 1, width - 2)
    tops = torch.randint(height + 2 * padding - size[0] + 1, (5,), generator=generator)
    lefts = torch.randint(width + 2 * padding - size[1] + 1, (5,), generator=generator)
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    ours = aug.crop_batch(padded, tops, lefts, size)
    reference = torch.stack([
        TF.crop(TF.pad(image, [padding] * 4), int(top), int(left), *size)
        for image, top, left in zip(images, tops, lefts, strict=True)])
    assert torch.equal(ours, reference)


def test_flip_batch_chosen_images_equals_torchvision_hflip():
    images = _floats()
    chosen = torch.tensor([True, False, True, True, False, False])
    reference = torch.stack([TF.hflip(image) if flip else image
                             for image, flip in zip(images, chosen, strict=True)])
    assert torch.equal(aug.flip_batch(images, chosen), reference)


def test_whole_pipeline_equals_pil_pipeline_bit_for_bit(monkeypatch):
    """uint8 -> PIL -> pad, crop, flip -> ToTensor -> Normalize, one by one, as torchvision does."""
    raw = _bytes(8)
    batched = aug.to_batch_transform(transforms.Compose([
        transforms.ToPILImage(), transforms.Compose([
            transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
            transforms.ToTensor(), transforms.Normalize(MEAN, STD)])]))
    tops, lefts = torch.arange(8), torch.arange(8).flip(0)
    draws = iter([tops, lefts])
    monkeypatch.setattr(aug.torch, "randint", lambda *a, **k: next(draws))
    monkeypatch.setattr(aug.torch, "rand", lambda count: torch.tensor([0.1, 0.9] * 4))
    ours = batched(raw.float().div(255))
    for i, image in enumerate(raw):
        pil = TF.crop(TF.pad(TF.to_pil_image(image), [4]), int(tops[i]), int(lefts[i]), 32, 32)
        pil = TF.hflip(pil) if i % 2 == 0 else pil
        assert torch.equal(ours[i], TF.normalize(TF.to_tensor(pil), MEAN, STD))


def test_random_crop_and_flip_give_each_sample_its_own_randomness():
    torch.manual_seed(0)
    images = _floats(1).expand(64, -1, -1, -1)
    cropped = aug.RandomCrop((32, 32), (4, 4, 4, 4))(images)
    flipped = aug.RandomHorizontalFlip()(images)
    assert len({image.sum().item() for image in cropped}) > 20
    same = (flipped == images).flatten(1).all(1).sum()
    assert 16 < same < 48


def test_random_crop_windows_are_uniform():
    torch.manual_seed(0)
    positions = torch.arange(25.).view(1, 1, 5, 5).expand(4000, 1, 5, 5)
    corners = aug.RandomCrop((3, 3))(positions)[:, 0, 0, 0]
    counts = torch.bincount(corners.long(), minlength=25)
    assert sorted(counts.nonzero().flatten().tolist()) == [0, 1, 2, 5, 6, 7, 10, 11, 12]
    assert counts[counts > 0].min() > 330 and counts.max() < 560


def test_transforms_leave_their_input_alone():
    torch.manual_seed(0)
    images = _floats()
    before = images.clone()
    pipeline = aug.to_batch_transform([transforms.RandomCrop(32, 4), transforms.ColorJitter(0.2),
                                       transforms.RandomApply([transforms.RandomHorizontalFlip()]),
                                       transforms.Normalize(MEAN, STD)])
    pipeline(images)
    assert torch.equal(images, before)


def test_normalize_of_single_image_has_three_dimensions():
    image = _floats(1)[0]
    ours = aug.Normalize(MEAN, STD)(image)
    assert torch.equal(ours, TF.normalize(image, MEAN, STD))


def test_color_jitter_draws_torchvision_parameters_per_image():
    jitter = transforms.ColorJitter(0.2, 0.2, 0.2, 0.1)
    images = _floats(4)
    torch.manual_seed(3)
    ours = aug.to_batch_transform(jitter)(images)
    torch.manual_seed(3)
    assert torch.equal(ours, torch.stack([jitter(image) for image in images]))


def test_random_apply_touches_only_chosen_images():
    torch.manual_seed(0)
    images = _floats(200, (4, 4))
    inner = transforms.RandomHorizontalFlip(p=1.0)
    ours = aug.to_batch_transform(transforms.RandomApply([inner], p=0.3))(images)
    unchanged = (ours == images).flatten(1).all(1)
    mirrored = (ours == images.flip(-1)).flatten(1).all(1)
    assert (unchanged | mirrored).all() and 30 < mirrored.sum() < 90


@pytest.mark.parametrize("unknown", [transforms.Grayscale(3), transforms.RandomCrop(8, fill=3)])
def test_transform_without_batched_form_is_applied_on_pil_images_with_a_warning(unknown, caplog):
    aug.warn_once.cache_clear()
    raw = _bytes(3, (8, 8))
    pipeline = aug.to_batch_transform(transforms.Compose([unknown, transforms.ToTensor()]))
    ours = pipeline(raw.float().div(255))
    reference = [TF.to_tensor(unknown(TF.to_pil_image(image))) for image in raw]
    assert torch.equal(ours, torch.stack(reference))
    assert type(unknown).__name__ in caplog.text


def test_subclass_of_known_transform_keeps_its_own_behaviour():
    class Blacken(transforms.RandomHorizontalFlip):
        def forward(self, img):
            return img * 0

    assert aug.to_batch_transform(Blacken())(_floats()).abs().sum() == 0


def test_to_batch_transform_of_conversions_only_is_none():
    assert aug.to_batch_transform(None) is None
    assert aug.to_batch_transform(transforms.Compose([transforms.ToTensor()])) is None


@pytest.mark.parametrize("padding", [None, 2, (2, 1), (1, 2, 3, 0)])
def test_crop_padding_forms_mean_what_torchvision_means(padding):
    plain = transforms.RandomCrop((3, 4), padding)
    batched = aug.to_batch_transform(plain).transforms[0]
    image = _floats(1, (8, 9))
    left, top, right, bottom = batched.padding
    reference = image if padding is None else TF.pad(image, padding)
    assert torch.equal(torch.nn.functional.pad(image, (left, right, top, bottom)), reference)


def test_random_crop_larger_than_image_says_so():
    with pytest.raises(ValueError, match="at least"):
        aug.RandomCrop((9, 9))(_floats(2, (8, 8)))


def test_apply_transform_kinds():
    images = _floats(2, (4, 4))
    assert aug.apply_transform(images, None) is images
    doubled = aug.apply_transform(images, lambda image: image * 2)
    assert torch.equal(doubled, images * 2)
    one = aug.apply_transform(images[:1], aug.Normalize(MEAN, STD), autosqueeze=True)
    assert one.shape == (3, 4, 4)
    pil = TF.to_pil_image(_bytes(1, (4, 4))[0])
    out = aug.apply_transform(pil, aug.Normalize((0, 0, 0), (1, 1, 1)), autosqueeze=True)
    assert torch.equal(out, TF.to_tensor(pil))
