"""Rules of a folder of algorithms, one per file: each is registered and exported, and nothing else is."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


def modules_of(folder: ModuleType, shared: set[str]) -> list[str]:
    """The modules of a folder that hold algorithms: all but those that hold what several of them share."""
    return sorted({module.name for module in pkgutil.iter_modules(folder.__path__)} - shared)


def require_one_module_each(folder: ModuleType, shared: set[str], registry: Mapping[str, type[Any]]) -> None:
    """Every registered class has a module of its own, and every module a class; classes have their own names."""
    homes = [cls.__module__.rpartition(".")[2] for cls in registry.values()]
    assert sorted(homes) == modules_of(folder, shared)
    assert shared <= {module.name for module in pkgutil.iter_modules(folder.__path__)}
    assert {name: cls.__name__ for name, cls in registry.items()} == {name: name for name in registry}


def require_registered(folder: ModuleType, module_name: str, method: str, registry: Mapping[str, type[Any]]) -> None:
    """Every public class of a module that has the method is registered, and there is at least one."""
    module = importlib.import_module(f"{folder.__name__}.{module_name}")
    found = {
        name: cls
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and hasattr(cls, method) and not name.startswith("_")
    }
    assert found and found.items() <= registry.items()


def require_exported(folder: ModuleType, registry_name: str) -> None:
    """What the folder imports from its modules is exported."""
    source = Path(str(folder.__file__)).read_text(encoding="utf-8")
    imported = {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(folder.__name__)
        for alias in node.names
    }
    assert imported | {registry_name} == set(folder.__all__)
