"""Folders of algorithms, one per file: each algorithm is registered and exported, and nothing else is."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import equipoise.learners
import equipoise.problems
import equipoise.selectors
from equipoise.learners import LEARNERS
from equipoise.problems import PROBLEMS
from equipoise.selectors import SELECTORS

# Of each folder: its registry and the name of it, the method that makes a class an algorithm, and the modules or
# folders that hold what several of them share.
Folder = tuple[ModuleType, Mapping[str, type[Any]], str, str, set[str]]
FOLDERS: list[Folder] = [
    (equipoise.learners, LEARNERS, "LEARNERS", "decide", {"_core"}),
    (equipoise.selectors, SELECTORS, "SELECTORS", "choose", {"_core"}),
    (equipoise.problems, PROBLEMS, "PROBLEMS", "respond", {"adversaries", "base", "finite_mdp"}),
]


def modules_of(folder: ModuleType, shared: set[str]) -> list[str]:
    """The modules of a folder that hold algorithms: all but those that hold what several of them share."""
    return sorted({module.name for module in pkgutil.iter_modules(folder.__path__)} - shared)


MODULES = [(folder, name) for folder in FOLDERS for name in modules_of(folder[0], folder[-1])]
of_each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder[2])


@of_each_folder
def test_every_file_of_a_folder_holds_one_registered_class_or_what_they_share(folder: Folder) -> None:
    """Classes are registered by their own names."""
    module, registry, _, _, shared = folder
    homes = [cls.__module__.rpartition(".")[2] for cls in registry.values()]
    assert sorted(homes) == modules_of(module, shared)
    assert shared <= {each.name for each in pkgutil.iter_modules(module.__path__)}
    assert {name: cls.__name__ for name, cls in registry.items()} == {name: name for name in registry}


@pytest.mark.parametrize(("folder", "name"), MODULES, ids=lambda value: value if isinstance(value, str) else value[2])
def test_every_public_class_with_the_method_is_registered(folder: Folder, name: str) -> None:
    """And every module has at least one."""
    module = importlib.import_module(f"{folder[0].__name__}.{name}")
    _, registry, _, method, _ = folder
    found = {
        name: cls
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and hasattr(cls, method) and not name.startswith("_")
    }
    assert found and found.items() <= registry.items()


@of_each_folder
def test_what_a_folder_imports_from_its_modules_is_exported(folder: Folder) -> None:
    module, _, registry_name, _, _ = folder
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    imported = {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(module.__name__)
        for alias in node.names
    }
    assert imported | {registry_name} == set(module.__all__)
