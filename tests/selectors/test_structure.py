"""Selectors are made of collaborators: few base classes, few modules, and no reads of private names of others."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Protocol

import pytest

import equipoise.lab.audit
import equipoise.lab.rivals
import equipoise.selectors
from equipoise.selectors._core.selector import KernelSelector

SELECTORS = Path(equipoise.selectors.__file__).parent
FILES = [*SELECTORS.rglob("*.py"), *Path(equipoise.lab.rivals.__file__).parent.glob("*.py")]
MAX_DEPTH = 3  # the settings, the selector made of kernels, the algorithm
MAX_MODULES = 15  # of the core
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}


def all_selectors() -> list[type[Any]]:
    """All classes of selectors made of kernels that the package defines."""
    for package in (equipoise.selectors, equipoise.lab.rivals, equipoise.lab.audit):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    new: list[type[Any]] = [KernelSelector]
    found = []
    while new:
        cls = new.pop()
        found.append(cls)
        new += [each for each in cls.__subclasses__() if each.__module__.startswith("equipoise.")]
    return found


def own_bases(cls: type[Any]) -> list[type[Any]]:
    """The classes of the package that a class consists of, itself included."""
    return [
        each
        for each in cls.__mro__
        if each.__module__.startswith("equipoise.") and Protocol not in each.__bases__ and each is not Generic
    ]


def private_reads(tree: ast.AST) -> Iterator[str]:
    """Reads of `x._name` where x is not the object or class itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and node.attr not in NAMED_TUPLE:
                yield f"line {node.lineno}: {owner}.{node.attr}"


def literal_attributes(tree: ast.AST) -> Iterator[str]:
    """Calls of `getattr` and `hasattr` with a literal name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("getattr", "hasattr"):
            continue
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_a_selector_is_at_most_three_classes_deep() -> None:
    classes = all_selectors()
    deep = {cls.__name__: [each.__name__ for each in own_bases(cls)] for cls in classes}
    assert {name: bases for name, bases in deep.items() if len(bases) > MAX_DEPTH} == {}
    assert set(equipoise.selectors.SELECTORS.values()) <= set(classes)


def test_the_core_has_few_modules() -> None:
    modules = [path.stem for path in (SELECTORS / "_core").glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MAX_MODULES, sorted(modules)


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_no_private_name_of_another_object_is_read(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert list(private_reads(tree)) == []
    assert list(literal_attributes(tree)) == []


def test_the_checks_find_what_they_look_for() -> None:
    tree = ast.parse("self._a; other._b; cls._c; x.y._d; row._replace(n=1); getattr(x, 'n'); getattr(x, name)")
    assert list(private_reads(tree)) == ["line 1: other._b", "line 1: x.y._d"]
    assert list(literal_attributes(tree)) == ["line 1: getattr(x, 'n')"]


def test_a_deeper_class_is_found() -> None:
    deeper = type("Deeper", (equipoise.selectors.Uniform,), {"__module__": "equipoise.invented"})
    assert len(own_bases(deeper)) == MAX_DEPTH + 1
