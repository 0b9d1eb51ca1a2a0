"""An experiment as data: a name, settings with defaults, and how to build one seed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setup:
    """One seed of an experiment: fresh objects, ready to run.

    `facts` and `well_specified` are what a simulation knows and no learner does; they are asked after every learner
    has played alone over the whole horizon.
    """

    problem: Any
    learners: tuple[Any, ...]
    selectors: Mapping[str, Any]  # by label
    shared: frozenset[str] = frozenset()  # labels of selectors under which learners learn from every round
    facts: Callable[[], Mapping[str, float]] = dict  # by name, such as the true size of what learners presume
    well_specified: Callable[[], Sequence[bool]] | None = None  # whether what each learner presumes is true


@dataclass(frozen=True)
class Experiment:
    """A named experiment. `build` makes one seed from complete settings, in which "instance" names the instance of the
    problem where an experiment has several."""

    name: str
    title: str
    section: str  # of the paper
    claim: str  # what the paper says will be seen
    defaults: Mapping[str, Any]  # plain data; has "rounds" and "seeds"
    selectors: tuple[str, ...]  # labels of the variants
    build: Callable[[Mapping[str, Any], int], Setup]
    instances: tuple[str, ...] = ("",)
    setting: str = ""  # problem, learners and bounds, for the page of the documentation
    remarks: str = ""  # what the figures of the page show, and where theory is vacuous

    def set_up(self, settings: Mapping[str, Any], seed: int, instance: str = "") -> Setup:
        """One seed of one instance."""
        return self.build({**settings, "instance": instance} if instance else settings, seed)
