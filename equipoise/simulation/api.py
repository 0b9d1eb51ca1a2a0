"""`simulate`: runs of a selector over learners on a problem, for many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from copy import deepcopy
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np

from equipoise.certificates import AnyElimination
from equipoise.compatibility import check_compatible, check_learners, check_sharing
from equipoise.errors import InvalidArgument
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks
from equipoise.learner import MinimalLearner, part_name
from equipoise.portfolio.pool import recommend
from equipoise.problem import Problem
from equipoise.selector import Selector, eliminations_of
from equipoise.settings import Configured, optional
from equipoise.settings.checks import boolean, count
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.parts import Curves, log_rounds
from equipoise.simulation.tapes import Tapes, run_on_tapes, why_not_tapes
from equipoise.types import Array, Integers

T = TypeVar("T")
Factory = Callable[[int], T]  # of a seed
MAX_SEED = 2**64 - 1


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Result of a simulation, one row per seed; curves are totals over the rounds up to each mark."""

    seeds: tuple[int, ...]
    marks: Integers  # rounds at which the curves are recorded
    learner_names: tuple[str, ...]
    regret: Array  # (seeds, marks); nan if the problem has no gap()
    certified: Array  # (seeds, marks) upper bound on the regret by the selector's certificate; nan if it has none
    reward: Array  # (seeds, marks)
    plays: Integers  # (seeds, marks, learners)
    eliminations: tuple[tuple[AnyElimination, ...], ...]  # of each seed, in order
    selectors: tuple[Selector, ...]  # of each seed, in their final state

    def __repr__(self) -> str:
        return (
            f"SimulationResult({len(self.seeds)} seeds, {self.marks[-1]:,} rounds, {len(self.learner_names)} learners)"
        )


def simulate(
    problem: Problem | Factory[Problem],
    learners: Sequence[MinimalLearner | Factory[MinimalLearner]] | Factory[Sequence[MinimalLearner]],
    selector: Selector | Factory[Selector] | None = None,
    *,
    rounds: int,
    seeds: int | Iterable[int] = 1,
    jobs: Jobs | None = None,
    executor: Executor | None = None,
    share_data: bool | None = None,
    joint: bool = False,
    marks: Iterable[int] | None = None,
) -> SimulationResult:
    """Run a selector over learners on a problem, once for each seed.

    The problem, the learners and the selector are objects, of which every seed gets a copy, or functions that make one
    from a seed. Objects of this package are copied in their initial state, others with their current state. Objects
    made of kernels run compiled, your own classes through their public methods.

    Parameters
    ----------
    problem
        The problem, or a function that makes it from a seed.
    learners
        The learners, each one an object or a function of a seed, or one function that makes all of them from a seed.
    selector
        The selector, or a function that makes it from a seed. Default: the default of a portfolio of these learners.
    rounds
        Number of rounds of each run.
    seeds
        Number of seeds, which are then 0, 1, 2, ..., or the seeds themselves.
    jobs
        Number of local processes; by default this process alone. It does not affect the results.
    executor
        Where to run seeds instead: any executor of `concurrent.futures`, such as those of Dask.
    share_data
        Whether learners that accept "off_policy" learn from every round; as in a portfolio.
    joint
        Whether to run all learners together even if recording each one alone has the same distribution and is faster.
    marks
        Rounds at which curves are recorded, in addition to the last; log-spaced if not given.

    Returns
    -------
    SimulationResult
        Curves of regret, certified regret, reward and plays, the eliminations and the final selectors, by seed.

    Examples
    --------
    >>> from equipoise import bounds, learners, problems, selectors, simulate
    >>> pool = [learners.UCB(3), learners.EpsilonGreedy(3, epsilon=0.5)]
    >>> selector = selectors.BalancedElimination([bounds.Power(1.0)] * 2)
    >>> simulate(problems.KArmedBandit([0.2, 0.5, 0.8]), pool, selector, rounds=100, seeds=2)
    SimulationResult(2 seeds, 100 rounds, 2 learners)
    """
    n_rounds, chosen = count("rounds", rounds), _check_seeds(seeds)
    optional(boolean)("share_data", share_data)
    boolean("joint", joint)
    makers = Makers(
        Maker("problem", "observe", problem),
        learners if callable(learners) else tuple(_each(learners)),
        None if selector is None else Maker("selector", "choose", selector),
        share_data,
    )
    first = makers.make(chosen[0])
    check_compatible(first.selector, first.learners)
    check_sharing(first.selector, first.learners, share_data)
    workers = checked_jobs(1 if jobs is None and executor is None else jobs, executor)
    tasks = [Task(makers, seed, _check_marks(marks, n_rounds), joint) for seed in chosen]
    runs: dict[int, SeedRun] = {}
    with run_tasks(run_seed, tasks, jobs=workers, what="simulation") as results:
        for task, run in results:
            runs[task.seed] = run
    curves = Curves(*map(np.stack, zip(*(runs[seed].curves for seed in chosen), strict=True)))
    return SimulationResult(
        chosen,
        tasks[0].marks,
        tuple(part_name(learner) for learner in first.learners),
        **curves._asdict(),
        eliminations=tuple(runs[seed].eliminations for seed in chosen),
        selectors=tuple(runs[seed].selector for seed in chosen),
    )


class Parts(NamedTuple):
    problem: Problem
    learners: Sequence[MinimalLearner]
    selector: Selector


class Maker(Generic[T]):
    """Makes an object for a seed: by calling a function with the seed, or by copying an object."""

    def __init__(self, what: str, method: str, part: T | Factory[T]) -> None:
        if isinstance(part, type):
            raise InvalidArgument(f"{what} is the class {part.__name__}, but must be an object or a function of a seed")
        if not callable(getattr(part, method, None)) and not callable(part):
            raise InvalidArgument(
                f"{what} is {part!r:.80}, but must have {method}() or be a function of a seed that makes one"
            )
        self.what, self.method, self.part = what, method, part

    def __call__(self, seed: int) -> T:
        if callable(getattr(self.part, self.method, None)):
            part = cast(T, self.part)
            return part.clone() if isinstance(part, Configured) else deepcopy(part)
        made = cast(Factory[T], self.part)(seed)
        if not callable(getattr(made, self.method, None)):
            raise InvalidArgument(f"{self.what} of seed {seed} is {made!r:.80}, but must have {self.method}()")
        return made


def _each(learners: object) -> Iterable[Maker[MinimalLearner]]:
    if not isinstance(learners, Sequence) or not learners:
        raise InvalidArgument(f"learners is {learners!r:.80}, but must be a list of learners or a function of a seed")
    return (Maker("learner", "decide", learner) for learner in learners)


class Makers(NamedTuple):
    problem: Maker[Problem]
    learners: Factory[Sequence[MinimalLearner]] | tuple[Maker[MinimalLearner], ...]
    selector: Maker[Selector] | None
    share_data: bool | None

    def make(self, seed: int) -> Parts:
        if isinstance(self.learners, tuple):
            learners: list[object] = [make(seed) for make in self.learners]
        else:  # what the function makes needs no copy
            learners = [each.part for each in _each(self.learners(seed))]
        made = cast(Sequence[MinimalLearner], learners)
        if self.selector is not None:
            return Parts(self.problem(seed), made, self.selector(seed))
        check_learners(made)
        return Parts(self.problem(seed), made, recommend(made, self.share_data).selector)


class Task(NamedTuple):
    makers: Makers
    seed: int
    marks: Integers
    joint: bool


class SeedRun(NamedTuple):
    curves: Curves
    eliminations: tuple[AnyElimination, ...]
    selector: Selector


def run_seed(task: Task, report: Report) -> SeedRun:
    parts = task.makers.make(task.seed)
    problem, learners, selector = parts
    share_data = task.makers.share_data
    returned: list[AnyElimination] = []
    if task.joint or why_not_tapes(problem, selector, share_data):
        curves, _ = run_jointly(*parts, task.marks, task.seed, share_data=share_data, on_elimination=returned.append)
    else:
        tapes = Tapes(problem, learners, task.marks, task.seed)
        curves, _ = run_on_tapes(tapes, selector, on_elimination=returned.append)
    kept = eliminations_of(selector)
    return SeedRun(curves, tuple(returned) if kept is None else kept, selector)


def _check_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(seeds, str | bytes) or not isinstance(seeds, Iterable):
        return tuple(range(count("seeds", seeds)))
    chosen = tuple(count("seed", seed, minimum=0, maximum=MAX_SEED) for seed in seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidArgument(f"seeds is {chosen!r:.80}, but must have at least one seed and none twice")
    return chosen


def _check_marks(marks: Iterable[int] | None, rounds: int) -> Integers:
    if marks is None:
        return log_rounds(rounds)
    return np.unique([*(count("mark", mark, maximum=rounds) for mark in marks), rounds]).astype(np.int64)
