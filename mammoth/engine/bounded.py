"""Reading files that somebody else wrote: only regular ones, only up to a size, never for ever."""
import copy
import functools
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

_MEGABYTE = 1 << 20
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_YAML_LIMIT, _YAML_DEPTH, _YAML_NODES = _MEGABYTE, 20, 50_000


class Unreadable(ValueError):
    """Why a file cannot be used, as the end of a sentence that begins with its name."""


def read_text(path: Path, limit: int) -> str:
    """The whole text of a file.

    Args:
        limit: the most bytes that such a file can sensibly have.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it is something else than a readable text file of that size.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error
    try:
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise Unreadable("is no regular file")
            content = b"" if about.st_size > limit else file.read(limit + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from error
    if about.st_size > limit or len(content) > limit:
        raise Unreadable(f"is larger than {limit / _MEGABYTE:g} MB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("is not UTF-8 text") from error


def read_json(path: Path, limit: int = 8 * _MEGABYTE) -> Any:
    """What a JSON file holds.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it cannot be read, or is no JSON.
    """
    text = read_text(path, limit)
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error
    except ValueError as error:
        raise Unreadable("is not valid JSON") from error
    if _LONE_SURROGATE.search(text):
        try:
            json.dumps(content, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise Unreadable("holds text that is not Unicode") from error
    return content


def read_yaml_value(path: Path) -> Any:
    """What a YAML file holds, aliases resolved.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it cannot be read, is no YAML, or is meant to exhaust whoever reads it.
    """
    return copy.deepcopy(_yaml_value(read_text(path, _YAML_LIMIT)))


@functools.lru_cache(maxsize=64)  # reading one command reads its settings file several times
def _yaml_value(text: str) -> Any:
    """What a YAML text holds, for nobody to change.

    Raises:
        Unreadable: it is no YAML, or is meant to exhaust whoever reads it.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, if built in
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):  # the loader itself recurses without limit
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _YAML_DEPTH:
                raise Unreadable(f"is nested more than {_YAML_DEPTH} levels deep")
        reader = loader(text)
        node = reader.get_single_node()
        # Counted before anything is made of the nodes: merged mappings (`<<`) are copied then.
        if node is not None and _written_out(node, {}) > _YAML_NODES:
            raise Unreadable(f"stands for more than {_YAML_NODES:,} values (aliases counted each "
                             "time)")
        return None if node is None else reader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" in line {mark.line + 1}"
        raise Unreadable(f"is not valid YAML ({type(error).__name__}{line})") from error
    except (ValueError, TypeError, AttributeError, OverflowError, LookupError,
            RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"is not valid YAML ({error})".replace("\n", " ")) from error


def _written_out(node: Any, known: dict[int, int]) -> int:
    """YAML nodes below and including this one, each alias counted as what it stands for.

    A node within itself counts as too many.
    """
    if id(node) not in known:
        known[id(node)] = _YAML_NODES + 1  # while it is being counted
        children = node.value if isinstance(node.value, list) else []
        parts = [part for child in children
                 for part in (child if isinstance(child, tuple) else (child,))]
        known[id(node)] = 1 + sum(_written_out(part, known) for part in parts)
    return known[id(node)]
