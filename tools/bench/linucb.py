"""The LinUCB contest: the same rounds for this engine, for plain loops and for other libraries.

Every round has a context x of d numbers and K actions; action k is the vector P_k x, P_k a fixed random rotation that
leaves the first coordinate alone and shrinks the others, each a little more than the one before, so that no two actions
tie. The expected reward 0.5 + 0.5 cos(angle) shrink is then linear in the features of the actions with one parameter
vector for all, and also linear in x with one parameter vector per action: libraries of either kind see a problem that
they can solve. P_0 is the identity: the first action is the context.

All contenders play mean + WIDTH * norm with ridge RIDGE, so that equal decisions have equal regret. OFUL's
radius is held at WIDTH by a tiny noise factor, which saves no work: its logarithm and root are computed all
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import NamedTuple

import numpy as np

from equipoise.bounds import Power
from equipoise.kernels.streams import CONTEXTS, INSTANCE, REWARDS, generator_at, open_stream, seek
from equipoise.learners import OFUL
from equipoise.portfolio import Decision, Portfolio
from equipoise.problems import TableBandit
from equipoise.selectors import BalancedElimination
from equipoise.simulation.tapes import Tapes
from equipoise.types import Array, Integers
from tools.bench.contest import RIDGE, WIDTH, Contender, Rounds, average_regret, load_module, play
from tools.bench.samples import Line, Result, summary
from tools.bench.scale import Scale, Shape

N_SETS = 200
NOISE = 0.1
MAX_SHRINKAGE = 0.1
TINY_NOISE = 1e-12
ENGINE = "equipoise, simulator"

Measured = tuple[float, float]  # seconds, average regret
Measure = Callable[[TableBandit, Rounds, int], Measured]  # of a problem, its rounds and the seed


class Entry(NamedTuple):
    """A contender that runs in this process; a fast one is timed several times per seed."""

    name: str
    runs: str
    measure: Measure
    fast: bool = False


def make_problem(dim: int, n_actions: int, seed: int) -> TableBandit:
    """An instance of the problem described above."""
    rng = generator_at(seed, INSTANCE)
    contexts, theta = _directions(rng, N_SETS, dim), _directions(rng, 1, dim)[0]
    table = np.repeat(contexts[:, None, :], n_actions, axis=1)
    for k in range(1, n_actions):
        rotation, _ = np.linalg.qr(rng.standard_normal((dim - 1, dim - 1)))
        table[:, k, 1:] = contexts[:, 1:] @ rotation * (1.0 - MAX_SHRINKAGE * k / n_actions)
    return TableBandit(table, theta, noise="gaussian", noise_scale=NOISE)


def _directions(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Unit vectors with first entry 1/sqrt(2), the rest in a random direction."""
    rest = rng.standard_normal((n, dim - 1))
    rest *= sqrt(0.5) / np.linalg.norm(rest, axis=1, keepdims=True)
    return np.hstack([np.full((n, 1), sqrt(0.5)), rest])


def make_rounds(problem: TableBandit, n_rounds: int, seed: int) -> Rounds:
    """The rounds that the simulator draws for this problem and seed."""
    table, means = problem.params
    stream, sets, noise = open_stream(seed), np.empty(n_rounds, np.int64), np.empty(n_rounds)
    for n in range(n_rounds):
        seek(stream, CONTEXTS, n)
        sets[n] = int(stream.generator.random() * len(table))
        seek(stream, REWARDS, n)
        noise[n] = NOISE * stream.generator.standard_normal()
    return Rounds(table, means, sets, noise)


def make_learner(dim: int) -> OFUL:
    return OFUL(dim, noise=TINY_NOISE, norm_bound=WIDTH / sqrt(RIDGE), regularization=RIDGE)


def simulate(problem: TableBandit, rounds: Rounds, seed: int) -> Measured:
    n_rounds = len(rounds.sets)
    tapes = Tapes(problem, [make_learner(problem.n_columns)], np.array([n_rounds]), seed)
    total_regret = tapes.curve(0)[-1]
    return tapes.seconds[0], float(total_regret) / n_rounds


class LearnerSteps:
    """A learner through its public methods."""

    def __init__(self, learner: OFUL) -> None:
        self.learner = learner
        self.learn = learner.learn

    def prepare(self, actions: Array) -> Array:
        return actions

    def decide(self, context: Array) -> int:
        return int(self.learner.decide(context).action)


class PortfolioSteps:
    """A portfolio through its public methods."""

    def __init__(self, portfolio: Portfolio) -> None:
        self.portfolio = portfolio
        self.decision: Decision | None = None

    def prepare(self, actions: Array) -> Array:
        return actions

    def decide(self, context: Array) -> int:
        self.decision = self.portfolio.decide(context)
        return int(self.decision.action)

    def learn(self, context: Array, action: int, reward: float) -> None:
        assert self.decision is not None
        self.portfolio.learn(self.decision, reward)


def lone_portfolio(learner: OFUL) -> PortfolioSteps:
    return PortfolioSteps(Portfolio([learner], BalancedElimination([Power(1.0)], noise=NOISE)))


def step(steps: Callable[[OFUL], Contender]) -> Measure:
    def measure(problem: TableBandit, rounds: Rounds, seed: int) -> Measured:
        seconds, actions = play(rounds, steps(make_learner(problem.n_columns)))
        return seconds, average_regret(rounds, actions)

    return measure


def loop_through(loop: Callable[..., Integers]) -> Measure:
    def measure(problem: TableBandit, rounds: Rounds, seed: int) -> Measured:
        arrays = rounds.table[rounds.sets], rounds.means[rounds.sets], rounds.noise
        loop(*(array[:2] for array in arrays), WIDTH, RIDGE)  # compiles before the clock starts
        start = perf_counter()
        actions = loop(*arrays, WIDTH, RIDGE)
        return perf_counter() - start, average_regret(rounds, actions)

    return measure


def measure_outside(path: Path) -> Measure:
    """A bare loop from outside: its `measure(dim, arms, rounds, repeats)` gives microseconds per round and regret."""
    module = load_module(path)

    def measure(problem: TableBandit, rounds: Rounds, seed: int) -> Measured:
        n_rounds = len(rounds.sets)
        micros, regret = module.measure(problem.n_columns, problem.n_actions, n_rounds, 1)
        return micros * n_rounds / 1e6, regret

    return measure


def entries(loops: Path | None, yardstick: Path | None) -> list[Entry]:
    """The contenders of this process; `loops` is the folder of the plain loops, if it is there."""
    own = [
        Entry(ENGINE, "OFUL, compiled driver, rounds drawn inside the clock", simulate, fast=True),
        Entry("equipoise, learner", "OFUL.decide and .learn, uncompiled", step(LearnerSteps)),
        Entry(
            "equipoise, portfolio", "Portfolio.decide and .learn, OFUL under BalancedElimination", step(lone_portfolio)
        ),
    ]
    if loops is not None:
        bare, plain = (load_module(loops / f"{name}.py").loop for name in ("bare_loop", "numpy_loop"))
        floor = Entry("bare loop", "Numba and BLAS on rounds drawn beforehand: a floor", loop_through(bare), fast=True)
        own = [floor, *own, Entry("NumPy loop", "plain NumPy on rounds drawn beforehand", loop_through(plain))]
    if yardstick is not None:
        outside = measure_outside(yardstick)
        own.insert(0, Entry("yardstick", f"{yardstick.name}, on rounds of its own", outside, fast=True))
    return own


def measure_shape(
    contenders: Sequence[Entry], shape: Shape, instances: Sequence[tuple[TableBandit, Rounds]], scale: Scale
) -> list[Result]:
    """A result per contender; they take turns, so that load on the machine affects all of them alike."""
    micros: list[list[float]] = [[] for _ in contenders]
    regrets: list[list[float]] = [[] for _ in contenders]
    for seed, (problem, rounds) in enumerate(instances):
        for entry, its_micros, its_regrets in zip(contenders, micros, regrets, strict=True):
            for _ in range(scale.passes if entry.fast else 1):
                seconds, regret = entry.measure(problem, rounds, seed)
                its_micros.append(seconds / shape.rounds * 1e6)
                its_regrets.append(regret)
    return [shape_result(shape, *figures) for figures in zip(micros, regrets, strict=True)]


def shape_result(shape: Shape, micros: Sequence[float], regrets: Sequence[float]) -> Result:
    """Microseconds per round, and the average regret of a round."""
    return {
        "dim": shape.dim,
        "n_actions": shape.n_actions,
        "rounds": shape.rounds,
        "micros": summary(micros),
        "regret": mean(regrets),
        "regrets": list(regrets),
    }


def contender_row(name: str, runs: str, *, version: str = "", error: str = "", results: Sequence[Result] = ()) -> Line:
    """A line of the contest; one that could not be measured has an error and no results."""
    return {"name": name, "runs": runs, "version": version, "error": error, "results": list(results)}
