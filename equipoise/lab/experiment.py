"""An experiment as data: a name, settings with defaults, and how to build one seed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from equipoise.bounds import Bound, Observed
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.learner import MinimalLearner
from equipoise.problem import FullProblem
from equipoise.selector import Selector
from equipoise.selectors import BalancedElimination, RealizedBalancing
from equipoise.types import Plain

# Labels of the selectors that most experiments run: Algorithm 1 with each kind of candidate bounds, and one without
# bounds; under shared data as well where learners can learn from every round.
USUAL = ("balanced-observed", "balanced-paper", "balanced-scaled", "realized")
WITH_SHARED = (*USUAL[:3], "balanced-shared", "realized", "realized-shared")
SHARED = frozenset({"balanced-shared", "realized-shared"})


@dataclass(frozen=True)
class Setup:
    """One seed of an experiment: fresh objects, ready to run.

    `facts` and `well_specified` are known to the simulation but not to the learners; they are called after every
    learner has played alone for all rounds.
    """

    problem: FullProblem
    learners: tuple[MinimalLearner, ...]
    selectors: Mapping[str, Selector]  # by label
    shared: frozenset[str] = frozenset()  # labels of selectors under which learners learn from every round
    facts: Callable[[], Mapping[str, float]] = dict  # by name, such as the true value of what learners assume
    well_specified: Callable[[], Sequence[bool]] | None = None  # whether each learner's assumptions hold

    def __post_init__(self) -> None:
        parts = {"problem": self.problem, **{f"learner {i}": learner for i, learner in enumerate(self.learners)}}
        parts |= {f"selector {label!r}": selector for label, selector in self.selectors.items()}
        for what, part in parts.items():
            if isinstance(part, type):
                name = part.__name__
                raise InvalidArgument(f"{what} is the class {name}, but must be an instance: write {name}(...)")


@dataclass(frozen=True)
class Experiment:
    """A named experiment.

    `build` makes one seed from complete settings, in which "instance" names the instance of the problem where an
    experiment has several. To run in several processes, `build` must be defined at the top of a module.
    """

    name: str
    title: str
    section: str  # of the paper
    claim: str  # what the paper predicts
    defaults: Mapping[str, Plain]  # plain data; has "rounds" and "seeds"
    selectors: tuple[str, ...]  # labels of the variants
    build: Callable[[Mapping[str, Plain], int], Setup]
    instances: tuple[str, ...] = ("",)

    def set_up(self, settings: Mapping[str, Plain], seed: int, instance: str = "") -> Setup:
        """One seed of one instance."""
        return self.build({**settings, "instance": instance} if instance else settings, seed)


def chosen_labels(what: str, names: Mapping[str, str], wanted: Sequence[str] | None) -> list[str]:
    """Return the wanted labels, in the order of `names`, which has the selector of each; None wants all.

    The name of a selector stands for all its variants. `what` names the labels in errors.
    """
    variants: dict[str, set[str]] = {label: {label} for label in names}
    for label, selector in names.items():
        variants.setdefault(selector, set()).add(label)
    for name in wanted or ():
        if name not in variants:
            raise UnknownName(what, name, variants)
    chosen = set(names) if wanted is None else set().union(*(variants[name] for name in wanted))
    return [label for label in names if label in chosen]


class InRange(Protocol):
    """A problem or selector whose rewards have a range."""

    @property
    def reward_range(self) -> tuple[float, float]: ...


def reward_width(part: InRange) -> float:
    """Return the distance from the smallest to the largest expected reward."""
    low, high = part.reward_range
    return float(high - low)


class Hidden(TypedDict):
    facts: Callable[[], Mapping[str, float]]
    well_specified: Callable[[], Sequence[bool]]


def hidden(name: str, grid: Sequence[float], truth: Callable[[], float]) -> Hidden:
    """Return what a `Setup` knows if learner i assumes `grid[i]`, which holds from the hidden truth on."""
    return {"facts": lambda: {name: truth()}, "well_specified": lambda: [assumed >= truth() for assumed in grid]}


def usual_bounds(paper: Sequence[Bound], scaled: Sequence[Bound]) -> dict[str, Sequence[Bound]]:
    """By label: observed bounds, those of the paper, and scaled ones."""
    return {"balanced-observed": [Observed() for _ in paper], "balanced-paper": paper, "balanced-scaled": scaled}


def balancing_selectors(
    bounds: Mapping[str, Sequence[Bound]], realized: Sequence[str] = ("realized",), **settings: Plain
) -> dict[str, Selector]:
    """By label, `BalancedElimination` with each set of candidate bounds, then `RealizedBalancing`, which needs none."""
    n_learners = len(next(iter(bounds.values())))
    return {
        **{label: BalancedElimination(candidates, **settings) for label, candidates in bounds.items()},
        **{label: RealizedBalancing(n_learners, **settings) for label in realized},
    }
