"""Which code a result came from: a digest of the modules it depends on, so that no result outlives a change of them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def code_digest(modules: Iterable[str]) -> str:
    """SHA-256, in hexadecimal, of the modules' sources and those of all that they import of the package, at any depth.

    The folders' own files are left out: they only list what is in the folder.
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(module)
    content = hashlib.sha256()
    for module in sorted(found):
        content.update(f"{module}\n".encode() + _source(module))
    return content.hexdigest()


@cache
def _imported(module: str) -> tuple[str, ...]:
    return tuple(name for name in _names(ast.parse(_source(module))) if _path(name).is_file())


def _names(tree: ast.AST) -> Iterator[str]:
    """Whatever an import may mean by a module: the name itself, and what is taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _source(module: str) -> bytes:
    return _path(module).read_bytes()


def _path(module: str) -> Path:
    return PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
