"""Names of models, datasets and backbones, known without importing any of them.

A method becomes available by standing in a file of `models/` (a class with `NAME`), by the
decorator `@register_model("name")`, or through a plugin. Listing the names reads the text of
the files only; a module is imported when its name is chosen. That keeps `main.py --help`
instant and one broken file from breaking the others.
"""
import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from engine.errors import UsageError
from engine.settings import dashed

_CLASS_NAME = re.compile(r"^[ \t]+NAME(?:\s*:\s*\w+)?\s*=\s*['\"]([\w\- ]+)['\"]", re.MULTILINE)


def parsable_args(function: Callable, skip: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """Describe the command-line arguments that a constructor or factory asks for.

    Args:
        function: a class (its `__init__` is read) or a factory function.
        skip: parameters that the harness fills in itself.

    Returns:
        name -> {type, default, required[, choices][, help]}; `num_classes` is never required
        because the dataset knows it. A parameter `Annotated[int, at_least(1)]` has that range as
        type.
    """
    target = function.__init__ if inspect.isclass(function) else function
    kinds = reversed(function.__mro__) if inspect.isclass(function) else [function]
    texts = {name: text for kind in kinds for name, text in _documented(kind.__doc__).items()}
    found = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if name in ("self", *skip) or parameter.kind in (
                parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        found[name] = _describe(parameter)
        if name in texts:
            found[name]["help"] = texts[name]
    return found


def _documented(page: str | None) -> dict[str, str]:
    """name -> text of the parameters that a docstring describes under `Args:`."""
    lines = inspect.cleandoc(page or "").partition("Args:\n")[2].splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = re.match(r" {4}(\w+): (.*)", line)
        if entry:
            name = entry[1]
            found[name] = entry[2]
        elif name and line.startswith(" " * 8):
            found[name] += f" {line.strip()}"
        else:
            break
    return {name: text.rstrip(".").replace("`", "") for name, text in found.items()}


def _describe(parameter: inspect.Parameter) -> dict[str, Any]:
    has_default = parameter.default is not inspect.Parameter.empty
    annotation = _without_none(parameter.annotation)
    spec: dict[str, Any] = {
        "default": parameter.default if has_default else None,
        "required": not has_default and parameter.name != "num_classes",
    }
    if get_origin(annotation) is Annotated:
        spec["type"] = get_args(annotation)[1]
    elif get_origin(annotation) is Literal:
        spec["choices"] = list(get_args(annotation))
        spec["type"] = type(spec["choices"][0])
    elif isinstance(annotation, type) and annotation is not inspect.Parameter.empty:
        spec["type"] = annotation
    elif has_default and parameter.default is not None:
        spec["type"] = type(parameter.default)
    else:
        spec["type"] = int if parameter.name == "num_classes" else str
    return spec


def _without_none(annotation: Any) -> Any:
    """`X` of an annotation `X | None`; others as they are."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if get_origin(annotation) in (Union, UnionType) and len(kinds) == 1 \
        else annotation


class Registry(Mapping):
    """All the names of one kind; looking one up imports the file it stands in.

    Args:
        kind: "model", "dataset" or "backbone"; also the suffix of the decorator's name.
        package: the package whose files are scanned, e.g. "models".
        folder: where that package lies.
        skip_args: constructor parameters that are not command-line arguments.
    """

    def __init__(self, kind: str, package: str, folder: str | Path,
                 skip_args: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.entries: dict[str, dict[str, Any]] = {}
        self._package = package
        self._folder = Path(folder)
        self._skip_args = skip_args
        self._declared: dict[str, str] = {}
        self._scanned: dict[str, str] | None = None

    def register(self, name: str) -> Callable:
        """Decorator that makes a class or factory available under `name`."""

        def decorator(thing: Any) -> Any:
            key = dashed(name)
            known = self.entries.get(key)
            if known is not None and _origin(known["class"]) != _origin(thing):
                raise ValueError(f"Expected a new {self.kind} name, but `{key}` is already "
                                 f"registered by {known['class'].__module__}.")
            is_class = inspect.isclass(thing)
            if is_class and not isinstance(getattr(thing, "NAME", None), str):
                thing.NAME = name
            self._add(key, thing)
            return thing

        return decorator

    def declare(self, name: str, module: str) -> None:
        """Let a plugin offer `name` without being imported until it is chosen."""
        self._declared[dashed(name)] = module

    def names(self) -> list[str]:
        """Every available name, sorted."""
        return sorted({*self.entries, *self._declared, *self._scan()})

    def entry(self, name: str) -> dict[str, Any]:
        """`{'class', 'parsable_args'}` of a name; imports its module on first use.

        Raises:
            UsageError: there is no such name, or its module cannot be imported.
        """
        key = dashed(name)
        if key not in self.entries:
            module = self._declared.get(key) or self._scan().get(key)
            if module is None:
                raise UsageError(self._unknown(name))
            self._import(key, module)
        return self.entries[key]

    def __getitem__(self, name: str) -> Any:
        if dashed(name) not in self.names():
            raise KeyError(name)
        return self.entry(name)["class"]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _add(self, key: str, thing: Any) -> None:
        args = parsable_args(thing, self._skip_args)
        self.entries[key] = {"class": thing, "parsable_args": args}

    def _scan(self) -> dict[str, str]:
        """name -> module of the files in the package's folder, from their text alone."""
        if self._scanned is None:
            decorator = re.compile(rf"@register_{self.kind}\(\s*['\"]([\w\- ]+)['\"]")
            self._scanned = {}
            for path in sorted(self._folder.glob("[!_]*.py")):
                text = path.read_text(encoding="utf-8")
                names = decorator.findall(text)
                if self.kind != "backbone":
                    names += _CLASS_NAME.findall(text)
                for name in names:
                    self._scanned[dashed(name)] = f"{self._package}.{path.stem}"
        return self._scanned

    def _import(self, key: str, module_name: str) -> None:
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise UsageError(f"The {self.kind} `{key}` cannot be loaded from {module_name}: "
                             f"{error}. Install what is missing or choose another "
                             f"{self.kind}.") from error
        if key in self.entries:
            return
        for thing in vars(module).values():
            name = getattr(thing, "NAME", None) if inspect.isclass(thing) else None
            if isinstance(name, str) and dashed(name) == key and not inspect.isabstract(thing):
                self._add(key, thing)
                return
        raise UsageError(f"{module_name} announces the {self.kind} `{key}` but defines no such "
                         f"class; give a class in that file NAME = '{key}'.")

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(dashed(name), self.names(), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else \
            f"there are {', '.join(self.names())}."
        return f"There is no {self.kind} `{name}`: {hint}"


def _origin(thing: Any) -> tuple[str, str]:
    """Where a class was defined: importing the same file twice is not a clash."""
    return thing.__module__, thing.__qualname__
