"""Data of the round loop: plain tuples of arrays, the same in Python and in compiled code.

`Components` holds the source of rounds and the selector, `Run` the progress and the curves. The types of the components
depend on the kernels that the loop is bound to; see `equipoise.simulation.binding`.
"""

from __future__ import annotations

from math import nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels.streams import Stream, open_stream
from equipoise.learner import Proposals
from equipoise.selectors._core import evidence
from equipoise.settings.checks import count
from equipoise.types import Array, Integers

Kernel: TypeAlias = Any  # params, state, memory or workspace, of a type that only the kernels of one algorithm know
Pair: TypeAlias = tuple[Kernel, Kernel]  # params and state of a selector
Evidence: TypeAlias = tuple[evidence.Params, evidence.State]
GROUP, MEMBER, SHARES, COLUMNS, AGREES = range(5)  # columns of `Fresh.places`
REWARD, GAP, REGRET = range(3)  # columns of a tape
NEVER, ALWAYS, WHEN_PROPOSED = range(3)  # whether a logged round is learned


class Turn(NamedTuple):
    learner: int
    probability: float
    task: int  # TEACH, KEEP or REPLAY
    round: int  # from 1
    account: int  # of the selector: the learner, or the expert of a selector that draws experts
    greedy: bool  # whether the learner's greedy action is played


class Played(NamedTuple):
    reward: float
    gap: float  # true regret; nan if unknown
    regret: float  # what the play adds to the learner's observed regret bound; nan if it has none


class Curves(NamedTuple):
    """Totals of a run at the marked rounds."""

    regret: Array
    certified: Array  # the certificate's upper bound on the regret; nan if the selector has none
    plays: Integers  # (marks, learners)
    reward: Array


def open_curves(n_marks: int, n_learners: int) -> Curves:
    unknown = (np.full(n_marks, nan) for _ in range(3))
    return Curves(next(unknown), next(unknown), np.zeros((n_marks, n_learners), np.int64), next(unknown))


class Progress(NamedTuple):
    """Progress of a run; arrays of one element, except for the plays of each learner."""

    done: Integers  # rounds so far
    next_mark: Integers  # position in the marks
    plays: Integers
    regret: Array  # total so far
    reward: Array  # likewise


class Run(NamedTuple):
    stream: Stream
    marks: Integers  # rounds at which curves are recorded, including the last
    progress: Progress
    curves: Curves


def open_run(seed: int, marks: Integers, n_learners: int) -> Run:
    counts = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(n_learners, np.int64)
    progress = Progress(*counts, np.zeros(1), np.zeros(1))
    return Run(open_stream(seed), marks, progress, open_curves(len(marks), n_learners))


def log_rounds(n_rounds: int, per_decade: int = 20) -> Integers:
    """Rounds from 1 to `n_rounds`, evenly spaced on a logarithmic scale, rounded and without repeats.

    The rounds below `n_rounds` do not depend on it, so that runs of different lengths can be compared.

    >>> log_rounds(25, per_decade=3).tolist()
    [1, 2, 5, 10, 22, 25]
    """
    n_rounds, per_decade = count("n_rounds", n_rounds), count("per_decade", per_decade)
    steps = np.arange(per_decade * len(str(n_rounds)))
    grid = np.rint(10.0 ** (steps / per_decade)).astype(np.int64)
    return np.unique(np.append(grid[grid < n_rounds], n_rounds))


class Fresh(NamedTuple):
    """A source: a problem that generates every round, and the learners that play it.

    Learners come in groups of one algorithm, because compiled code cannot index a tuple of different types.
    """

    problem: Kernel
    noise: Kernel
    workspace: Kernel
    learners: tuple[tuple[Kernel, ...], ...]  # their params, by group
    memories: tuple[tuple[Kernel, ...], ...]
    kept: tuple[tuple[Kernel, ...], ...]  # stored policies
    words: tuple[Integers, Integers]  # memories and stored policies as words, one row per learner
    places: Integers  # (learners, 5): group, member, whether it learns from all rounds, number of columns it reads,
    # whether it learns from all rounds in which the action is its own proposal
    proposals: Proposals
    lane: int  # added to the lanes of the random streams
    first: int  # number of the first round in the random streams


class Episodes(NamedTuple):
    """A source: a finite decision process and one episodic learner; a round is an episode."""

    problem: Kernel
    learner: Kernel
    memory: Kernel
    max_width: float
    alpha: float
    states: Integers  # (H,) buffer of an episode
    actions: Integers
    rewards: Array
    lane: int


class Recorded(NamedTuple):
    """A source: rows (reward, gap, regret) that each learner recorded alone."""

    rows: Array  # (learners, rounds, 3)
    recorded: Integers  # number of rows of each learner


class Logged(NamedTuple):
    """A source: a batch of logged rounds, and one learner that proposes in each and may learn what was logged."""

    learners: tuple[tuple[Kernel, ...], ...]  # as in `Fresh`, of one learner
    memories: tuple[tuple[Kernel, ...], ...]
    places: Integers
    contexts: Array  # (rounds, actions, columns)
    n_offered: Integers  # the first actions of a context are offered
    actions: Integers  # the logged ones
    rewards: Array
    weights: Array  # with which the logged rounds are learned
    updates: Integers  # which rounds are learned: NEVER, ALWAYS or WHEN_PROPOSED
    proposed: Integers  # what the learner proposes in each round; filled by the loop
    lane: int  # added to the lane of the learner's random stream
    first: int  # number of the first round in the random stream


class LateRewards(NamedTuple):
    """Delayed rewards, by round from 0."""

    delay: int  # number of rounds by which a reward below `midpoint` is delayed; 0 for no delay
    midpoint: float
    chosen: Integers
    probabilities: Array
    rewards: Array
    gaps: Array
    regrets: Array
    arrived: NDArray[np.bool_]
    rounds_of: Integers  # (learners, rounds) in which each learner made its plays
    credited: Integers  # (learners,) length of each resolved prefix of plays
    pooled: Integers  # (1,) length of the resolved prefix of rounds


def open_late_rewards(delay: int, midpoint: float, n_learners: int, rounds: int) -> LateRewards:
    def zeros() -> Array:
        return np.zeros(rounds)

    return LateRewards(
        delay,
        midpoint,
        np.zeros(rounds, np.int64),
        *(zeros(), zeros(), zeros(), zeros()),
        np.zeros(rounds, np.bool_),
        np.zeros((n_learners, rounds), np.int64),
        np.zeros(n_learners, np.int64),
        np.zeros(1, np.int64),
    )


class Components(NamedTuple):
    """The components of a run; an empty tuple where there is none."""

    source: Kernel  # a source above, or an adapter
    selector: Kernel = ()  # (params, state), or an adapter
    tape: Kernel = ()  # (rows, 3) that a learner alone fills
    late: Kernel = ()  # a `LateRewards`
    facts: Kernel = ()  # data of a probe
