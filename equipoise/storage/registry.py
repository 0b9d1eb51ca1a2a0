"""Classes by name: those of equipoise, and those that installed packages register by entry points.

A package adds classes under the groups `equipoise.learners`, `equipoise.selectors` and `equipoise.problems`, each under
the name of its class:

    [project.entry-points."equipoise.learners"]
    MyLearner = "my_package.learners:MyLearner"

They are listed by `equipoise list`, and files that contain them load without passing objects. An entry point that
cannot be imported is ignored and reported by name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.errors import UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("equipoise")
KINDS = ("learners", "selectors", "problems")


class Plugins(NamedTuple):
    """The classes of one kind that installed packages register."""

    classes: dict[str, type[Any]]
    faults: tuple[str, ...]  # entry points that are ignored, and why


def registered_classes(kind: str) -> Mapping[str, type[Any]]:
    """All classes of a kind by name: those of equipoise and of installed packages."""
    _log_faults(kind)
    return {**builtin_classes(kind), **plugins(kind).classes}


def builtin_classes(kind: str) -> Mapping[str, type[Any]]:
    """The classes of equipoise of a kind."""
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    classes: Mapping[str, type[Any]] = getattr(import_module(f"equipoise.{kind}"), kind.upper())
    return {**classes, **import_module("equipoise.adapters").ADAPTERS} if kind == "learners" else classes


@cache
def plugins(kind: str) -> Plugins:
    """The classes of a kind that installed packages register; looked up once per process."""
    from importlib.metadata import entry_points  # slow to import

    classes: dict[str, type[Any]] = {}
    faults = []
    for point in entry_points(group=f"equipoise.{kind}"):
        fault = _add(point, classes, builtin_classes(kind))
        if fault is not None:
            faults.append(f"entry point {point.name!r} of equipoise.{kind} ({point.value}) is ignored: {fault}")
    return Plugins(classes, tuple(faults))


@cache
def _log_faults(kind: str) -> None:
    """Log once per process; `equipoise list` prints them itself."""
    for fault in plugins(kind).faults:
        logger.warning(fault)


def _add(point: EntryPoint, classes: dict[str, type[Any]], builtin: Mapping[str, type[Any]]) -> str | None:
    """Add the class of an entry point; returns why that is not possible, or None."""
    if point.name in builtin:
        return "equipoise has a class of that name"
    if point.name in classes:
        return "another package has a class of that name"
    try:
        cls = point.load()
    except Exception as error:  # a broken package must not break anything else
        return f"it cannot be imported: {error!r}"
    if not isinstance(cls, type) or cls.__name__ != point.name:
        return f"it is {cls!r:.80}, but must be a class of that name"
    classes[point.name] = cls
    return None


def command_name(class_name: str) -> str:
    """The name on the command line: in lower case with hyphens.

    >>> [command_name(name) for name in ("BalancedElimination", "OFUL", "KArmedBandit", "D3RB", "UCB1", "LSVI_UCB")]
    ['balanced-elimination', 'oful', 'k-armed-bandit', 'd3rb', 'ucb1', 'lsvi-ucb']
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", class_name).lower().replace("_", "-")
