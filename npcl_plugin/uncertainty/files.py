"""Arrays and JSON on disk, each file whole or not there."""
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npcl_plugin import contract

FOLDER = "uncertainty"


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an .npz, compressed."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False,
                        **{name: np.asarray(value) for name, value in arrays.items()})
    contract.atomic_write(path, stream.getvalue())


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an .npz; nothing in it is executed.

    Raises:
        ValueError: it is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile,
            zlib.error) as error:
        raise ValueError(f"Expected whole arrays in {path}, but it cannot be read "
                         f"({type(error).__name__}); run again or remove it.") from error


def save_json(path: Path, content: Any) -> None:
    """Write JSON; numbers are rounded to five digits, undefined ones become null."""
    contract.atomic_write(path, (json.dumps(plain(content), allow_nan=False) + "\n").encode())


def load_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        ValueError: it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"Expected JSON in {path}, but it cannot be read "
                         f"({type(error).__name__}).") from error


def numbered(folder: Path, kind: str) -> dict[int, Path]:
    """task -> file `<kind>_<task>.npz`, in order."""
    found = {int(path.stem.removeprefix(f"{kind}_")): path
             for path in folder.glob(f"{kind}_[0-9]*.npz")}
    return dict(sorted(found.items()))


def plain(value: Any) -> Any:
    """Arrays and numbers as JSON has them."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
