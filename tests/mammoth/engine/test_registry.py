"""Names without imports, and classes on demand."""
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from engine.errors import UsageError
from engine.registry import Registry, parsable_args

MAMMOTH = Path(__file__).resolve().parents[3] / "mammoth"


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A package `zoo` with files that would fail if imported too early."""
    package = tmp_path / "zoo"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "cat_file.py").write_text("class Cat:\n    NAME = 'big_cat'\n")
    (package / "broken.py").write_text("import no_such_module\nclass B:\n    NAME = 'broken'\n")
    (package / "liar.py").write_text("if True:\n    NAME = 'liar'\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("model", "zoo", package)
    for name in [name for name in sys.modules if name.split(".")[0] == "zoo"]:
        del sys.modules[name]


def test_names_come_from_text_and_import_nothing(registry):
    assert registry.names() == ["big-cat", "broken", "liar"]
    assert "zoo.cat_file" not in sys.modules
    assert registry["big_cat"].__name__ == "Cat"
    assert "zoo.cat_file" in sys.modules


def test_unknown_name_suggests_the_nearest(registry):
    with pytest.raises(UsageError, match="did you mean `big-cat`"):
        registry.entry("bigcat")


def test_broken_module_is_named_and_spoils_nothing_else(registry):
    with pytest.raises(UsageError, match="`broken` cannot be loaded.*no_such_module"):
        registry.entry("broken")
    assert registry.entry("big-cat")["class"].NAME == "big_cat"


def test_file_that_announces_what_it_lacks_is_refused(registry):
    with pytest.raises(UsageError, match="defines no such class"):
        registry.entry("liar")


def test_decorator_registers_sets_name_and_refuses_a_second_owner(registry):
    @registry.register("New_One")
    class First:
        def __init__(self, args, size: int = 3):
            pass

    assert First.NAME == "New_One"
    assert registry.entry("new-one")["parsable_args"]["size"]["default"] == 3
    with pytest.raises(ValueError, match="already registered"):
        registry.register("new_one")(type("Second", (), {}))


def test_registration_never_builds_the_class(registry):
    class Explosive:
        def __init__(self):
            raise AssertionError("built")

    registry.register("explosive")(Explosive)
    assert registry["explosive"] is Explosive


def test_declared_names_are_imported_when_chosen(registry):
    registry.declare("lazy", "zoo.cat_file")
    assert "lazy" in registry.names() and "zoo.cat_file" not in sys.modules
    with pytest.raises(UsageError, match="defines no such class"):
        registry.entry("lazy")


def test_parsable_args_reads_annotations_defaults_and_choices():
    def factory(num_classes: int, kind: Literal["a", "b"] = "b", size=4, other=None, *rest, **kw):
        pass

    found = parsable_args(factory, skip=("other",))
    assert set(found) == {"num_classes", "kind", "size"}
    assert found["num_classes"] == {"default": None, "required": False, "type": int}
    assert found["kind"]["choices"] == ["a", "b"] and found["kind"]["default"] == "b"
    assert found["size"]["type"] is int


@pytest.mark.parametrize("package", ["models", "datasets", "backbone"])
def test_importing_a_registry_loads_neither_torch_nor_methods(package):
    code = (f"import sys; sys.path.insert(0, {str(MAMMOTH)!r}); import {package} as p; "
            "assert len(p.REGISTRY.names()) > 2; "
            "assert not {'torch', 'torchvision', 'numpy', 'yaml'} & set(sys.modules)")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_help_of_parameters_comes_from_the_docstring_also_of_a_base_class():
    from engine.registry import parsable_args

    class Base:
        """A thing.

        Args:
            size: pixels on a side,
                both of them.
            name: `x` by default.

        Attributes:
            other: no parameter.
        """

        def __init__(self, size: int | None = None, name: str = "x", other: float = 1.0) -> None:
            pass

    class Thing(Base):
        """Without words about parameters."""

    found = parsable_args(Thing)
    assert found["size"]["help"] == "pixels on a side, both of them"
    assert found["size"]["type"] is int
    assert found["name"]["help"] == "x by default" and "help" not in found["other"]
