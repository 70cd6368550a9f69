"""What a method's settings file says for one benchmark, layer by layer.

A file `<method>.yaml` holds sections, each a map from arguments to values:

    extends: npcl                 everything of npcl.yaml, under what stands in this file
    default: {...}                for every benchmark
    class-il: {...}               for every benchmark of a setting (or domain-il, ...)
    seq-cifar10:                  for one benchmark
      source: ours                who chose the values; "published" where nothing is said
      lr: 0.1
      200: {lr: 0.03}             for one buffer size; the nearest in ratio serves others
    domain-il:
      with dark_replay: {...}     in any section: only where that argument is switched on
      with backbone mnistmlp: {...}   ... or has that value
    config release: {...}         on top of these, with --model_config release

Later sections win over earlier ones, and everything in a file wins over the file it extends.
This module needs nothing of the harness, so that the same files mean the same values wherever
a plugin reads them.
"""
import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PUBLISHED = "published"
# Settings whose tasks are sets of classes, and which therefore take what class-IL takes.
_LIKE_CLASS_IL = ("task-il", "biased-class-il", "general-continual")
SETTINGS = ("class-il", "domain-il", *_LIKE_CLASS_IL)
_SWITCH = "with "
_NAMED = "config "
CONFIGS = ("default", "base", "best")  # what --model_config means for every method

Section = Mapping[Any, Any]
Reader = Callable[[Path], Section]


class SettingsError(ValueError):
    """A settings file that makes no sense, or has nothing for what was asked."""


class Layer(NamedTuple):
    """Values of one origin.

    Args:
        source: where they come from, as a run prints it.
        values: argument -> value.
        switch: the argument that has to be on for them to apply, if any.
        wanted: the value that it has to have, if not just any that is on.
    """

    source: str
    values: dict[str, Any]
    switch: str | None = None
    wanted: str | None = None

    def applies(self, values: Mapping[str, Any]) -> bool:
        """Whether the arguments so far are such that the layer counts."""
        if self.switch is None:
            return True
        value = values.get(self.switch)
        return bool(value) if self.wanted is None else dashed(str(value)) == dashed(self.wanted)


class Query(NamedTuple):
    """What is asked of a settings file.

    Args:
        method: its name, for the sentences.
        benchmark: e.g. seq-cifar10.
        setting: e.g. class-il.
        buffer_size: None where the method has no buffer.
        which: "default" takes what there is, "base" leaves out benchmarks, "best" demands the
            exact benchmark and buffer size; any other is the name of a `config` section.
    """

    method: str
    benchmark: str
    setting: str
    buffer_size: int | None = None
    which: str = "default"


def file_layers(path: Path | None, query: Query, read: Reader, *,
                find: Callable[[str], Path | None] = lambda name: None,
                benchmarks: Collection[str] = ()) -> list[Layer]:
    """The layers of a settings file and of those it extends, weakest first.

    Args:
        path: the method's file; None where it has none.
        read: gives a file's mapping.
        find: gives the file of a method that `extends` names and that does not stand beside
            `path`.
        benchmarks: the benchmarks that exist; given, a section of any other name is refused.

    Raises:
        SettingsError: a file makes no sense, or the best settings or those of a name are asked
            for and missing.
    """
    files = file_chain(path, read, find) if path is not None else []
    if benchmarks:
        for file, content in files:
            _check_sections(file, content, benchmarks)
    if query.which == "best":
        _demand_best(files, query)
    if query.which not in (names := (*CONFIGS, *_named_configs(files))):
        raise SettingsError(f"There are no settings of {query.method} called `{query.which}`; "
                            f"--model_config takes {', '.join(names)}.")
    return [layer for file, content in files
            for source, section in _sections(file, content, query)
            for layer in _split(source, section)]


def named_configs(path: Path | None, read: Reader,
                  find: Callable[[str], Path | None] = lambda name: None) -> list[str]:
    """What --model_config takes beside `CONFIGS`, for the method of a settings file."""
    return _named_configs(file_chain(path, read, find) if path is not None else [])


def _named_configs(files: list[tuple[Path, Section]]) -> list[str]:
    return sorted({name.removeprefix(_NAMED) for _, content in files for name in content
                   if isinstance(name, str) and name.startswith(_NAMED)})


def file_chain(path: Path, read: Reader, find: Callable[[str], Path | None] = lambda name: None
               ) -> list[tuple[Path, Section]]:
    """The file and what it extends, each with its content, the most distant first.

    Raises:
        SettingsError: `extends` leads nowhere, or in a circle.
    """
    chain = [(path, read(path))]
    while (parent := chain[0][1].get("extends")) is not None:
        child = chain[0][0]
        if not isinstance(parent, str):
            raise SettingsError(f"Expected `extends` in {child} to name a method, but got "
                                f"{parent!r}.")
        file = next((p for p in sorted(child.parent.glob("*.yaml"))
                     if dashed(p.stem) == dashed(parent)), None) or find(parent)
        if file is None:
            raise SettingsError(f"{child} extends `{parent}`, which has no settings file; mend the "
                                "name.")
        if any(file == known for known, _ in chain):
            raise SettingsError(f"{child} extends `{parent}`, which extends it in turn; take one "
                                "of the two out.")
        chain.insert(0, (file, read(file)))
    return chain


def fold(layers: list[Layer], typed: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """argument -> (value, source): the strongest layer that applies.

    Args:
        typed: what the command line says; it decides, with the layers, which switches are on.
    """
    plain = {name: value for layer in layers if layer.switch is None
             for name, value in layer.values.items()} | dict(typed)
    return {name: (value, layer.source) for layer in layers
            if layer.applies(plain)
            for name, value in layer.values.items()}


def dashed(name: str) -> str:
    """The one spelling of a name: `er_ace` and `er-ace` are the same method."""
    return name.strip().lower().replace("_", "-")


def _check_sections(path: Path, content: Section, benchmarks: Collection[str]) -> None:
    """A mistyped benchmark would leave its settings unread."""
    known = {"extends", "default", *SETTINGS, *map(dashed, benchmarks)}
    for name in content:
        if isinstance(name, str) and name.startswith(_NAMED):
            continue
        if not isinstance(name, str) or dashed(name) not in known:
            near = difflib.get_close_matches(dashed(str(name)), sorted(known), n=1, cutoff=0)
            raise SettingsError(f"{path} has settings for `{name}`, which is neither a benchmark "
                                f"nor a setting; did you mean `{near[0]}`?")


def _sections(path: Path, content: Section, query: Query) -> Iterator[tuple[str, Section]]:
    """(source, values) of the sections of one file that apply, weakest first."""
    for name in ("default", _setting_section(content, query.setting)):
        if name in content:
            yield f"{path.name}: {name}", _mapping(path, name, content[name])
    if query.which != "base":
        yield from _benchmark_sections(path, content, query)
    if (name := _NAMED + query.which) in content:
        yield f"{path.name}: {name}", _mapping(path, name, content[name])


def _benchmark_sections(path: Path, content: Section,
                        query: Query) -> Iterator[tuple[str, Section]]:
    benchmark = _benchmark_section(path, content, query)
    if benchmark is None:
        return
    label = f"{benchmark.get('source', PUBLISHED)}: {query.benchmark}"
    yield label, {key: value for key, value in benchmark.items()
                  if not isinstance(key, int) and key != "source"}
    size = _nearest_size(benchmark, query.buffer_size)
    if size is not None:
        exact = size == query.buffer_size
        yield (f"{label}, buffer {size}" + ("" if exact else f" (nearest to {query.buffer_size})"),
               _mapping(path, f"{query.benchmark}, {size}", benchmark[size]))


def _setting_section(content: Section, setting: str) -> str:
    return "class-il" if setting not in content and setting in _LIKE_CLASS_IL else setting


def _benchmark_section(path: Path, content: Section, query: Query) -> Section | None:
    for name, section in content.items():
        if isinstance(name, str) and dashed(name) == dashed(query.benchmark):
            return _mapping(path, name, section)
    return None


def _mapping(path: Path, name: str, section: object) -> Section:
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise SettingsError(f"Expected the section `{name}` of {path} to map arguments to values, "
                            f"but got {type(section).__name__}.")
    return section


def _split(source: str, section: Section) -> Iterator[Layer]:
    """A section as a layer, and one more for each of its `with` parts."""
    switched = {key: value for key, value in section.items()
                if isinstance(key, str) and key.startswith(_SWITCH)}
    wrong = [key for key in section if not isinstance(key, str)]
    if wrong:
        raise SettingsError(f"Expected the names of arguments in the settings ({source}), but got "
                            f"{wrong[0]!r}.")
    yield Layer(source, {key: value for key, value in section.items() if key not in switched})
    for key, values in switched.items():
        if not isinstance(values, Mapping):
            raise SettingsError(f"Expected `{key}` in the settings ({source}) to map arguments to "
                                f"values, but got {type(values).__name__}.")
        switch, *wanted = key.removeprefix(_SWITCH).split()
        if len(wanted) > 1:
            raise SettingsError(f"Expected `with ARGUMENT` or `with ARGUMENT VALUE` in the "
                                f"settings ({source}), but got `{key}`.")
        yield Layer(f"{source} {key}", dict(values), switch, *wanted)


def _nearest_size(section: Section, size: int | None) -> int | None:
    """The entry whose buffer size is closest in ratio: 1000 is nearer to 500 than to 5120."""
    sizes = [key for key in section if isinstance(key, int) and not isinstance(key, bool)]
    if not sizes or size is None:
        return None
    return min(sizes, key=lambda known: abs(math.log(max(known, 1) / max(size, 1))))


def _demand_best(files: list[tuple[Path, Section]], query: Query) -> None:
    found = [section for path, content in files
             if (section := _benchmark_section(path, content, query)) is not None]
    if not found:
        raise SettingsError(f"There are no published settings of {query.method} on "
                            f"{query.benchmark}; give --lr and the rest yourself, without "
                            "--model_config best.")
    sizes = sorted({key for section in found for key in section if isinstance(key, int)})
    if sizes and query.buffer_size is not None and query.buffer_size not in sizes:
        raise SettingsError(f"There are no published settings of {query.method} on "
                            f"{query.benchmark} for buffer size {query.buffer_size}; there are "
                            f"{', '.join(map(str, sizes))}.")
