"""An experiment as data: a name, settings with defaults, and how to build one seed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setup:
    """One seed of an experiment: fresh objects, ready to run."""

    problem: Any
    learners: tuple[Any, ...]
    selectors: Mapping[str, Any]  # by label
    share_data: bool = False


@dataclass(frozen=True)
class Experiment:
    """A named experiment. `build` makes one seed from complete settings."""

    name: str
    title: str
    section: str  # of the paper
    claim: str  # what the paper says will be seen
    defaults: Mapping[str, Any]  # plain data; has "rounds" and "seeds"
    selectors: tuple[str, ...]  # labels of the variants
    build: Callable[[Mapping[str, Any], int], Setup]
