"""Every setting is described once, on its field, and every class docstring lists the settings of its constructor."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import equipoise
from equipoise.adapters import ADAPTERS, EXPLORATIONS, MODELS
from equipoise.lab.rivals import RIVAL_LEARNERS, RIVAL_SELECTORS
from equipoise.learners import LEARNERS
from equipoise.problems import PROBLEMS
from equipoise.selectors import SELECTORS
from equipoise.settings import Configured, configurable, describe, setting, settings_of
from equipoise.settings.checks import count, positive

REGISTRIES: tuple[dict[str, Any], ...] = (
    LEARNERS,
    SELECTORS,
    PROBLEMS,
    ADAPTERS,
    EXPLORATIONS,
    MODELS,
    RIVAL_LEARNERS,
    RIVAL_SELECTORS,
)
CLASSES = [cls for registry in REGISTRIES for cls in registry.values()]
ROOT = Path(equipoise.__file__).parent


def documented(cls: type[Any]) -> list[tuple[str, str]]:
    """The entries of the Parameters section of a class."""
    text = cls.__doc__ or ""
    assert text.count("\nParameters\n----------\n") == 1
    section = text.split("\nParameters\n----------\n")[1].split("\n\n")[0]
    entries = re.findall(r"^(\w+)\n((?:    .*\n?)+)", section, re.MULTILINE)
    return [(name, " ".join(lines.split())) for name, lines in entries]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_parameters_are_those_of_the_constructor_in_its_order(cls: type[Any]) -> None:
    assert [name for name, _ in documented(cls)] == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_setting_states_its_default(cls: type[Any]) -> None:
    parameters = inspect.signature(cls).parameters
    for name, text in documented(cls):
        default, stated = parameters[name].default, re.search(r"Default: (.+)\.$", text)
        if default is inspect.Parameter.empty:
            assert stated is None, name
        elif default is None or default == ():
            assert stated, name
        else:
            assert stated and eval(stated[1]) == default, name


def every_configurable_class() -> list[type[Any]]:
    """The classes with settings in all modules that can be imported here."""
    for module in pkgutil.walk_packages(equipoise.__path__, "equipoise."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:  # of an extra that is not installed
                continue
    found: set[type[Any]] = set()
    waiting: list[type[Any]] = [Configured]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            if cls.__module__.startswith("equipoise."):
                waiting.append(cls)
                if is_dataclass(cls):
                    found.add(cls)
    return sorted(found, key=lambda cls: cls.__qualname__)


def test_every_field_of_every_class_has_a_doc() -> None:
    classes = every_configurable_class()
    assert len(classes) >= len(CLASSES)
    without = [
        f"{cls.__module__}.{cls.__qualname__}.{field.name}"
        for cls in classes
        for field in settings_of(cls)
        if not re.fullmatch(r"[\"A-Z`].*\.", field.metadata["doc"], re.DOTALL)
    ]
    assert without == []


def test_no_class_docstring_in_source_lists_a_field_again() -> None:
    names = {(cls.__module__, cls.__qualname__) for cls in every_configurable_class()}
    pasted = []
    for path in ROOT.rglob("*.py"):
        module = ".".join((ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and (module, node.name) in names:
                section = re.search(r"^Parameters\n-+$", ast.get_docstring(node) or "", re.MULTILINE)
                pasted += [f"{module}.{node.name}"] if section else []
    assert pasted == []


@configurable
class Ruler(Configured):
    """A ruler.

    It is straight.

    Examples
    --------
    >>> Ruler(3).length
    3
    """

    length: int = setting("Number of units.", count, kw_only=False)
    unit: float = setting("Length of a unit in meters.", positive, default=1.0)
    color: str = setting("Color.", default="red")
    mark: int | None = setting("Marked unit. Default: none.", default=None, alias="marked")


@describe(unit="Length of a unit in inches. " + "Long " * 30 + "doc.")
@configurable
class Tape(Ruler):
    """A tape measure."""

    width: int = setting("Width.", count, default=2)


class Plain(Ruler):
    pass


def test_the_section_stands_before_the_examples_and_has_the_defaults() -> None:
    assert Ruler.__doc__ == (
        "A ruler.\n\nIt is straight.\n\nParameters\n----------\nlength\n    Number of units.\n"
        'unit\n    Length of a unit in meters. Default: 1.\ncolor\n    Color. Default: "red".\n'
        "marked\n    Marked unit. Default: none.\n\nExamples\n--------\n>>> Ruler(3).length\n3"
    )
    assert Ruler(3).__doc__ == Ruler.__doc__


def test_a_subclass_lists_inherited_settings_and_may_describe_them_again() -> None:
    entries = dict(documented(Tape))
    assert list(entries) == ["length", "unit", "color", "marked", "width"]
    assert entries["unit"].startswith("Length of a unit in inches.") and entries["unit"].endswith("Default: 1.")
    assert max(map(len, (Tape.__doc__ or "").splitlines())) <= 112
    assert dict(documented(Ruler))["unit"] == "Length of a unit in meters. Default: 1."


def test_only_an_existing_setting_can_be_described() -> None:
    with pytest.raises(KeyError, match="weight"):
        describe(weight="Weight.")(Tape)


def test_a_subclass_without_a_text_inherits_the_docstring() -> None:
    assert Plain.__doc__ is None
    assert inspect.getdoc(Plain) == Ruler.__doc__


def test_help_shows_the_settings() -> None:
    import pydoc

    assert "Length of a unit in meters. Default: 1." in pydoc.render_doc(Ruler)


def test_without_docstrings_there_is_no_section_and_no_error() -> None:
    program = "from equipoise.learners import UCB; assert 'Parameters' not in (UCB.__doc__ or ''); print(UCB(2))"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", program], env=os.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "UCB(2)\n"


def depth(cls: type[Any]) -> int:
    """The length of the longest chain of base classes within the package."""
    bases = [base for base in cls.__bases__ if base.__module__.startswith("equipoise.")]
    return max((1 + depth(base) for base in bases), default=0)


@pytest.mark.parametrize("cls", [*LEARNERS.values(), *PROBLEMS.values(), *ADAPTERS.values(), *MODELS.values()])
def test_base_classes_are_at_most_3_deep(cls: type[Any]) -> None:
    assert depth(cls) <= 3
