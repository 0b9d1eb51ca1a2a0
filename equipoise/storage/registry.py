"""Classes by name: those of the package, and those that installed packages add through entry points.

A package adds classes under the groups `equipoise.learners`, `equipoise.selectors` and `equipoise.problems`, each under
the name of its class:

    [project.entry-points."equipoise.learners"]
    MyLearner = "my_package.learners:MyLearner"

They are listed by `equipoise list`, and files that hold them load without passing objects. An entry point that cannot
be imported is left out and reported by name; everything else goes on.
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
    """What installed packages add to one kind."""

    classes: dict[str, type[Any]]
    faults: tuple[str, ...]  # entry points that were left out, and why


def registered_classes(kind: str) -> Mapping[str, type[Any]]:
    """All classes of a kind by name: the package's own and those of installed packages."""
    _log_faults(kind)
    return {**own_classes(kind), **plugins(kind).classes}


def own_classes(kind: str) -> Mapping[str, type[Any]]:
    """The package's own classes of a kind."""
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    classes: Mapping[str, type[Any]] = getattr(import_module(f"equipoise.{kind}"), kind.upper())
    return classes


@cache
def plugins(kind: str) -> Plugins:
    """What installed packages add to a kind; looked up once per process."""
    from importlib.metadata import entry_points  # takes longer to import than all of the core

    classes: dict[str, type[Any]] = {}
    faults = []
    for point in entry_points(group=f"equipoise.{kind}"):
        fault = _add(point, classes, own_classes(kind))
        if fault is not None:
            faults.append(f"entry point {point.name!r} of equipoise.{kind} ({point.value}) is left out: {fault}")
    return Plugins(classes, tuple(faults))


@cache
def _log_faults(kind: str) -> None:
    """Once per process; `equipoise list` shows them itself."""
    for fault in plugins(kind).faults:
        logger.warning(fault)


def _add(point: EntryPoint, classes: dict[str, type[Any]], own: Mapping[str, type[Any]]) -> str | None:
    """Add the class of an entry point, or say why it cannot be added."""
    if point.name in own:
        return "equipoise has a class of that name itself"
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
