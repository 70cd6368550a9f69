"""Features on disk: every image passes the network once.

    <base_path>/features/<network>-<weights>-<pixels>px-<preprocessing>/<data>-<images>.npy

A file holds the features of one set of images (N, F) in half precision, in numpy's format with a
checksum at the end. Weights and images are named by digits of their content: other images are
another file. While the features are made they grow in a file `.part`; whoever is interrupted goes
on there, and whoever wants the same features meanwhile waits.
"""
import hashlib
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from datasets.utils.features.network import FeatureNetwork, NetworkSpec
from engine.errors import RunError, UsageError
from engine.files import atomic_write, with_checksum, without_checksum
from engine.locks import lock_file
from utils.conf import base_path, get_device, warn_once

_CPU_BATCH, _GPU_BATCH = 16, 256  # small batches stay in a CPU's cache: a third faster than 64
_BATCHES_AT_A_TIME = 16  # what an interruption can lose
_TYPE = np.float16

_in_memory: dict[Path, torch.Tensor] = {}


def digest_of(images: torch.Tensor) -> str:
    """Sixteen hex digits of the images and their shape."""
    content = hashlib.sha256(repr((tuple(images.shape), images.dtype)).encode())
    content.update(images.contiguous().numpy().data)
    return content.hexdigest()[:16]


def features_of(images: torch.Tensor, spec: NetworkSpec, label: str,
                device: str | None = None, quiet: bool = False) -> torch.Tensor:
    """The features of images, from the cache or made now.

    Args:
        images: (N, H, W) or (N, H, W, 3) uint8.
        spec: of which network.
        label: what people call the images.
        device: as `--device`.
        quiet: no progress bar.

    Returns:
        (N, F) float16.

    Raises:
        UsageError: the network cannot be built, or the cache cannot be written.
    """
    folder = Path(base_path(), "features", spec.identity)
    digest = digest_of(images)
    path = min(folder.glob(f"*-{digest}.npy"),  # the same images may have another name
               default=folder / f"{label}-{digest}.npy")
    if path not in _in_memory:
        found = _read(path, len(images))
        if found is None:
            with _alone(path, quiet):
                found = _read(path, len(images))
                if found is None:
                    found = _extract(images, spec, path, device, quiet)
        _in_memory[path] = torch.from_numpy(found)
    return _in_memory[path]


def _read(path: Path, count: int) -> np.ndarray | None:
    """The kept features; None where there are none or they are damaged."""
    try:
        content = without_checksum(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"Cannot read the features {path} ({error.strerror}); mend or remove "
                         "the file.") from error
    try:
        found = None if content is None else np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError):
        found = None
    if found is None or found.ndim != 2 or len(found) != count or found.dtype != _TYPE:
        warn_once(f"{path} is damaged and is made anew.")
        return None
    return found


@contextmanager
def _alone(path: Path, quiet: bool) -> Iterator[None]:
    """Let one process at a time make a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError as error:
        raise UsageError(f"Cannot write the features into {path.parent} ({error.strerror}); choose "
                         "another folder with --base_path.") from error
    with lock:
        if lock_file(lock.fileno()) is False:
            if not quiet:
                print(f"Another process makes {path.name}; waiting for it.", file=sys.stderr)
            lock_file(lock.fileno(), wait=True)
        yield


def _extract(images: torch.Tensor, spec: NetworkSpec, path: Path, device: str | None,
             quiet: bool) -> np.ndarray:
    """Pass the images through the network, from where an interrupted process stopped."""
    network = FeatureNetwork(spec, get_device(device))
    size = _CPU_BATCH if network.device.type == "cpu" else _GPU_BATCH
    part, row = path.with_suffix(".part"), network.dim * _TYPE().itemsize
    chunk = size * _BATCHES_AT_A_TIME
    title = path.stem.rsplit("-", 1)[0]
    if not quiet:
        print(f"{len(images)} images of {title} pass {spec.name} once; their features are kept in "
              f"{path.parent}.", file=sys.stderr)
    done = part.stat().st_size // row // chunk * chunk if part.exists() else 0
    done = min(done, len(images))
    try:
        with part.open("r+b" if part.exists() else "w+b") as file, tqdm(
                total=len(images), initial=done, unit=" images", mininterval=0.5,
                desc=f"Features of {title}", disable=quiet or None) as bar:
            file.truncate(done * row)
            file.seek(done * row)
            for begin in range(done, len(images), chunk):
                batches = images[begin:begin + chunk].split(size)
                for features in map(network, batches):
                    file.write(_half(features, spec).tobytes())
                    bar.update(len(features))
                file.flush()
            file.seek(0)
            found = np.frombuffer(file.read(), _TYPE).reshape(len(images), network.dim).copy()
    except OSError as error:
        raise RunError(f"Cannot write {part}: {error.strerror}; free some space. The features made "
                       "so far are kept.") from error
    content = io.BytesIO()
    np.save(content, found, allow_pickle=False)
    atomic_write(path, with_checksum(content.getvalue()))
    part.unlink(missing_ok=True)
    return found


def _half(features: torch.Tensor, spec: NetworkSpec) -> np.ndarray:
    """In half precision; its range is wide enough for all networks that normalise."""
    found = features.numpy().astype(_TYPE)
    if not np.isfinite(found).all():
        raise RunError(f"The features of {spec.name} are not finite in half precision; use another "
                       "network.")
    return found
