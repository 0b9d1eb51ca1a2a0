"""Digests of the source code that a result depends on, so that a change of the code invalidates stored results."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from equipoise.errors import EXTRAS
from equipoise.kernels.marks import NATIVE

PACKAGE = Path(__file__).resolve().parents[1]
IMPORTED = time.time()
# Libraries, besides the standard library, that kernels may use and whose versions are part of the cache key.
LIBRARIES = frozenset({"numpy", "llvmlite", *EXTRAS})  # none of them has kernels of ours


def code_digest(modules: Iterable[str]) -> str:
    """SHA-256, in hexadecimal, of the sources of the modules and of all modules that they import, at any depth.

    Modules outside of the package are included; imports of an installed package are followed only within that package.
    `__init__` files are not included, because they only list the contents of their folder.
    """
    content = hashlib.sha256()
    for module in reached(modules):
        content.update(f"{module}\n".encode() + _source(module))
    return content.hexdigest()


def changed_since_start(modules: Iterable[str]) -> bool:
    """Whether a source file may have changed since this process imported it."""
    paths = (_path(module) for module in reached(modules))
    return any(path is None or path.stat().st_mtime >= _process_start() for path in paths)


def reached(modules: Iterable[str]) -> list[str]:
    """The modules and all that they import, including the native versions of their kernels."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(module)
            waiting += [native.__module__ for kernel, native in NATIVE.items() if kernel.__module__ == module]
    return sorted(found)


@cache
def _process_start() -> float:
    """Start of this process in seconds since the epoch; the import time of this module if the system does not tell."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return min(IMPORTED, time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return IMPORTED


@cache
def _imported(module: str) -> tuple[str, ...]:
    names = (name for name in _names(ast.parse(_source(module)), module) if _path(name) is not None)
    if not _is_installed(module):
        return tuple(names)
    return tuple(name for name in names if name.partition(".")[0] == module.partition(".")[0])


def _names(tree: ast.AST, module: str) -> Iterator[str]:
    """All modules that an import may refer to: the module, its submodules, and where imported objects are defined."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            given = "." * node.level + (node.module or "")
            # A package is what its own relative imports start from; another module starts from the package it is in.
            package = module if hasattr(sys.modules.get(module), "__path__") else module.rpartition(".")[0]
            source = importlib.util.resolve_name(given, package) if node.level else given
            yield source
            for alias in node.names:
                yield f"{source}.{alias.name}"
                defined = getattr(getattr(sys.modules.get(source), alias.name, None), "__module__", None)
                if isinstance(defined, str):
                    yield defined


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    if path is None:
        raise FileNotFoundError(f"module {module} has no source file")
    return path.read_bytes()


def _path(module: str) -> Path | None:
    """The source file of a module, if it is included in digests."""
    top = module.partition(".")[0]
    if top == PACKAGE.name:
        path = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    elif top in sys.stdlib_module_names or top in LIBRARIES:
        return None
    else:
        path = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    return path if path.suffix == ".py" and path.is_file() else None


def _is_installed(module: str) -> bool:
    path = _path(module)
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    own = module.partition(".")[0] == PACKAGE.name
    return not own and path is not None and any(path.is_relative_to(folder) for folder in folders)
