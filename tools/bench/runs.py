"""Whole runs and their parts: the nested experiment, selectors on tapes, episodes, portfolios step by step.

The mix of learners changes as some are eliminated, so whether the time of a round grows with the horizon is measured on
the parts: a learner alone, and a selector over equal learners of which it eliminates none.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from math import ceil
from time import perf_counter, perf_counter_ns

import numpy as np

from equipoise.bounds import Bound, Observed, Power
from equipoise.lab.experiment import Setup
from equipoise.lab.experiments.linear_mdp import LINEAR_MDP
from equipoise.lab.experiments.nested import NESTED, NORM_BOUND, nested_dims
from equipoise.lab.runs.results import log_rounds
from equipoise.learner import part_name
from equipoise.learners import OFUL, Constant
from equipoise.portfolio import Portfolio
from equipoise.problems import KArmedBandit, LinearBandit
from equipoise.selectors import BalancedElimination
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.loops import alone
from equipoise.simulation.parts import open_run
from equipoise.simulation.tapes import Tapes, run_on_tapes
from tools.bench.samples import Figure, figure
from tools.bench.scale import Scale

NESTED_GROUP = "Nested experiment, scaled bound, whole run"
SELECTOR_GROUP = "BalancedElimination on recorded tapes"
HORIZON_GROUP = "Time of a round as the horizon grows"
EPISODE_GROUP = "An episode of LSVI-UCB in linear-mdp as episodes pass"
STEP_GROUP = "Portfolio step by step: five OFUL with d = 2..32, K = 10"
WARM_UP = 100  # rounds of a first run that compiles
D_STAR = NESTED.defaults["d_star"]

Figures = Iterator[Figure]


def nested_figures(scale: Scale) -> Figures:
    """Rounds per second of whole runs, learners and selector together."""
    seconds: dict[str, Callable[[int, int], float]] = {
        "table of 200 contexts": lambda seed, rounds: from_tapes("table", seed, rounds),
        "fresh contexts": lambda seed, rounds: from_tapes("fresh", seed, rounds),
        "fresh contexts, data shared to all learners": shared,
    }
    for name, measure in seconds.items():
        measure(0, WARM_UP)
        values = [scale.run_rounds / measure(seed, scale.run_rounds) for seed in range(scale.repeats)]
        yield figure(NESTED_GROUP, f"{name}, T = {scale.run_rounds:,}", "rounds/s", values)


def from_tapes(contexts: str, seed: int, rounds: int) -> float:
    """Seconds of a run, the recording of tapes included."""
    setup = nested(contexts, seed, rounds)
    tapes = Tapes(setup.problem, setup.learners, log_rounds(rounds), seed)
    start = perf_counter()
    run_on_tapes(tapes, setup.selectors["balanced-scaled"])
    return perf_counter() - start


def shared(seed: int, rounds: int) -> float:
    """Seconds of a run in which every learner learns from every round."""
    setup = nested("fresh", seed, rounds)
    selector = setup.selectors["balanced-scaled"]
    return run_jointly(setup.problem, setup.learners, selector, log_rounds(rounds), seed, share_data=True)[1]


def nested(contexts: str, seed: int, rounds: int) -> Setup:
    return NESTED.build({**NESTED.defaults, "contexts": contexts, "rounds": rounds}, seed)


def selector_figures(scale: Scale) -> Figures:
    """The selector alone: on tapes of the nested experiment, and over more and more learners."""
    rounds = scale.run_rounds
    setup = nested("fresh", 0, rounds)
    tapes = Tapes(setup.problem, setup.learners, log_rounds(rounds), 0)
    run_on_tapes(tapes, setup.selectors["balanced-scaled"])  # records what the selector will ask for
    values = []
    for _ in range(scale.repeats):
        selector = nested("fresh", 0, rounds).selectors["balanced-scaled"]
        values.append(rounds / run_on_tapes(tapes, selector)[1])
    yield figure(SELECTOR_GROUP, f"nested, five learners, T = {rounds:,}", "rounds/s", values)
    for n_learners in scale.learner_counts:
        name = f"{n_learners} equal learners, T = {rounds:,}"
        yield figure(SELECTOR_GROUP, name, "ns per round", selector_nanos(n_learners, rounds, scale))


def horizon_figures(scale: Scale) -> Figures:
    """Nanoseconds per round of a learner alone and of a selector alone, for longer and longer runs."""
    for rounds in scale.horizons:
        values = [learner_seconds(seed, rounds) / rounds * 1e9 for seed in range(scale.repeats)]
        name = f"OFUL(d={D_STAR}) alone, fresh contexts, T = {rounds:,}"
        yield figure(HORIZON_GROUP, name, "ns per round", values)
    for rounds in scale.horizons:
        name = f"BalancedElimination over 5 equal learners, T = {rounds:,}"
        yield figure(HORIZON_GROUP, name, "ns per round", selector_nanos(5, rounds, scale))


def learner_seconds(seed: int, rounds: int) -> float:
    learner = OFUL(D_STAR, norm_bound=NORM_BOUND)
    tapes = Tapes(LinearBandit(seed=seed), [learner], np.array([rounds]), seed)
    tapes.curve(0)
    return tapes.seconds[0]


def selector_nanos(n_learners: int, rounds: int, scale: Scale) -> list[float]:
    """Per round, for learners with equal bounds and coin flips for rewards: they share the rounds evenly."""
    plays = ceil(rounds / n_learners) + 1
    rewards = np.random.default_rng(0).integers(0, 2, (n_learners, plays)).astype(float)
    rows = np.stack([rewards, np.zeros_like(rewards), np.zeros_like(rewards)], axis=2)
    marks, zeros = log_rounds(rounds), np.zeros(n_learners)
    tapes = Tapes(KArmedBandit([0.5, 0.5]), [Constant(0) for _ in range(n_learners)], marks, seed=0)
    recorded = {f"rows.{i}": own for i, own in enumerate(rows)}
    tapes.restore({"curves": np.zeros((n_learners, 2, len(marks))), "seconds": zeros, "plays": zeros, **recorded})
    seconds = []
    for _ in range(scale.repeats):
        selector = BalancedElimination([Power(1.0)] * n_learners)
        seconds.append(run_on_tapes(tapes, selector)[1])
        assert not selector.eliminations, "equal learners were told apart"
    return [each / rounds * 1e9 for each in seconds]


def episode_figures(scale: Scale) -> Figures:
    """Microseconds of an episode, planning included, after fewer and more of them."""
    for i, name in enumerate(map(part_name, linear_mdp(0, 1).learners)):
        micros = np.array([episode_micros(i, seed, scale) for seed in range(scale.repeats)])
        for column, after in enumerate(scale.episodes):
            values = micros[:, column].tolist()
            yield figure(EPISODE_GROUP, f"{name}, after {after:,} episodes", "µs per episode", values)


def episode_micros(i: int, seed: int, scale: Scale) -> list[float]:
    """Of learner i alone, over equally many episodes after each of `scale.episodes`."""
    window, most = scale.episodes[0], 2 * scale.episodes[-1]
    setup = linear_mdp(seed, most)
    problem, learner = setup.problem, setup.learners[i]
    bound, run = alone(problem, learner, i, np.empty((0, 3))), open_run(seed, np.array([most]), 1)

    def play(until: int) -> float:
        start = perf_counter()
        bound.advance(run, until)
        return perf_counter() - start

    micros = []
    for after in scale.episodes:
        play(after)
        micros.append(play(after + window) / window * 1e6)
    return micros


def linear_mdp(seed: int, episodes: int) -> Setup:
    return LINEAR_MDP.build({**LINEAR_MDP.defaults, "rounds": episodes}, seed)


def step_figures(scale: Scale) -> Figures:
    """Microseconds of `decide` and `learn` together; drawing contexts and rewards is not timed."""
    dims = nested_dims(NESTED.defaults["d_max"])
    observed: list[Bound] = [Observed() for _ in dims]
    settings: dict[str, tuple[list[Bound], bool]] = {
        "bounds Power(d/4)": ([Power(dim / 4) for dim in dims], False),
        "bounds Observed()": (observed, False),
        "bounds Observed(), data shared to all learners": (observed, True),
    }
    for name, (bounds, share_data) in settings.items():
        values = []
        for seed in range(scale.repeats):
            learners = [OFUL(dim, norm_bound=NORM_BOUND) for dim in dims]
            portfolio = Portfolio(learners, BalancedElimination(bounds), share_data=share_data)
            values.append(float(np.median(step_micros(portfolio, scale.step_rounds, seed))))
        yield figure(STEP_GROUP, name, "µs per round", values)


def step_micros(portfolio: Portfolio, rounds: int, seed: int) -> list[float]:
    problem, rng = LinearBandit(seed=seed), np.random.default_rng(seed)
    micros = []
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        context, number = problem.observe(rng), rng.random()
        means = problem.means(context).tolist()
        start = perf_counter_ns()
        decision = portfolio.decide(context)
        decided = perf_counter_ns()
        reward = float(number < means[decision.action])
        resumed = perf_counter_ns()
        portfolio.learn(decision, reward)
        micros.append((decided - start + perf_counter_ns() - resumed) / 1000)
    gc.enable()
    return micros
