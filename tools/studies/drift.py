"""False alarms, detection delays and regret under drift: `python -m tools.studies.drift [--runs N] [--jobs J]`.

*False alarms*: portfolios under one law, 1,000 runs for each null: arms (UCB over 200 arms explores, so that means
drop), frozen policies under random contexts, learners' own bounds, a stationary exploration trap with shared data, and
the order of fixed rules. Each null may be refuted in at most a share delta of the runs. The control has half the radius
and must be refuted more often than delta: else the count proves nothing.
*Late rewards*: one law; from round 600 the zeros of the poor one of two actions come 1,500 rounds late. A learner that
learns at once then believes in the poor action with narrow widths: the null of bounds may not be tested with them. The
control tests it all the same, and must raise alarms. With rewards that come at once, a real change must be found.
*Detection*: UCB(5), whose best arm falls from 0.9 to 0.2 after 3,000 rounds.
*Regret*: three fixed rules of mean 0.9, 0.5 and 0.1; after 5,000 of 10,000 rounds the best and the worst change places.
Regret after the swap, of 4,000 possible, for `on_drift="warn"` and `"restart"`, under both
selectors that are recommended.
"""

from __future__ import annotations

import argparse
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import sqrt
from statistics import fmean, median
from typing import Any

import numpy as np

from equipoise import Portfolio
from equipoise.lab.suite.instances import INSTANCES
from equipoise.learners import OFUL, UCB, Constant
from equipoise.portfolio.drift import Play, RewardMonitor, Stream
from equipoise.portfolio.updates import LearnerUpdates
from equipoise.problems import DriftingBandit, KArmedBandit, LinearBandit
from equipoise.selectors import CounterfactualBalancing, RealizedBalancing

DELTA = 0.05
SWAP_ROUNDS, LIMIT = 10_000, 1.5 * 127


def stream_crosses(seed: int, rounds: int, *, alpha: float, scale: float = 1.0) -> bool:
    """Whether a stream of fair coins is refuted; `scale` multiplies its radius."""
    stream = Stream(alpha, 0.25 * scale**2, 0.25 * scale**2)
    rewards = np.random.default_rng([7, seed]).integers(0, 2, rounds).tolist()
    for k, reward in enumerate(rewards):
        play = Play(k, 0, 0.0, ())
        play.reward = float(reward)
        stream.queue.append(play)
        stream.advance()
        if stream.plays >= stream.next_check:
            stream.check()
            if stream.highest_lower > stream.least_upper:
                return True
    return False


def _arms() -> tuple[Any, Portfolio]:
    means = np.append(np.full(199, 0.2), 0.8)
    return KArmedBandit(means), Portfolio([Constant(0), UCB(200)], RealizedBalancing(2, contexts="fixed"))


def _frozen() -> tuple[Any, Portfolio]:
    return LinearBandit(4, 4, 3), Portfolio([Constant(action) for action in range(3)])


def _bound() -> tuple[Any, Portfolio]:
    return LinearBandit(4, 2, 3), Portfolio([OFUL(2), OFUL(4)], RealizedBalancing(2))


def _trap() -> tuple[Any, Portfolio]:
    setup = INSTANCES["exploration-trap"].set_up(0)
    return setup.problem, Portfolio(setup.learners, RealizedBalancing(3), share_data=True)


def _order() -> tuple[Any, Portfolio]:
    learners = [Constant(0), Constant(1), Constant(2)]
    selector = CounterfactualBalancing.for_learners(learners, share_data=False)
    return KArmedBandit([0.9, 0.9, 0.85]), Portfolio(learners, selector)  # far from the middle of the range


# The null, and how many rounds a run has.
NULLS: dict[str, tuple[Callable[[], tuple[Any, Portfolio]], int]] = {
    "arms, UCB(200) explores": (_arms, 3_000),
    "frozen policies": (_frozen, 3_000),
    "bounds of learners": (_bound, 1_000),
    "exploration trap, shared data": (_trap, 1_000),
    "order of fixed rules": (_order, 2_000),
}


def has_alarm(name: str, rounds: int, scale: float, seed: int) -> bool:
    """Whether a run under one law ends with an alarm; `scale` multiplies all radii of the monitor."""
    logging.disable(logging.WARNING)
    problem, portfolio = NULLS[name][0]()
    rng = np.random.default_rng([8, seed])
    fixed = portfolio.selector.traits.contexts == "fixed"
    for _ in range(rounds):
        context = problem.observe(rng)
        decision = portfolio.decide(None if fixed else context)
        monitor = portfolio._state.drift.monitor
        if scale != 1.0 and monitor is not None and not monitor.learners[0 if 0 in monitor.learners else 1].plays:
            _narrow(monitor, scale)
        portfolio.learn(decision, problem.respond(context, decision.action, rng))
        if any(mark.kind == "drift" for mark in portfolio.history.marks):
            return True
    return False


def _narrow(monitor: RewardMonitor, scale: float) -> None:
    monitor.law = monitor.law._replace(
        own_variance=monitor.law.own_variance * scale**2, regret_variance=monitor.law.regret_variance * scale**2
    )


def alarms(name: str, seeds: Iterable[int], *, quick: bool = False, scale: float = 1.0, jobs: int = 1) -> int:
    """The number of runs with an alarm."""
    rounds = 300 if quick else NULLS[name][1]
    run = partial(has_alarm, name, rounds, scale)
    if jobs == 1:
        return sum(map(run, seeds))
    with ProcessPoolExecutor(jobs) as pool:
        return sum(pool.map(run, seeds, chunksize=8))


def bound_alarm(seed: int, *, late: int = 1_500, rounds: int = 6_000, after: float = 0.9) -> int | None:
    """Return the round of the first alarm, None if there is none.

    From round 601 on a reward of 0 of the poor action comes `late` rounds late, and the good action has mean `after`.
    """
    portfolio, rng = Portfolio([UCB(2)], seed=seed), np.random.default_rng([11, seed])
    offers, waiting = np.eye(2), deque[tuple[int, str]]()  # offers: contexts are random for all that is known
    for t in range(1, rounds + 1):
        while waiting and waiting[0][0] <= t:
            portfolio.learn(waiting.popleft()[1], 0.0)
        decision = portfolio.decide(offers)
        mean = 0.2 if decision.action == 1 else 0.9 if t <= 600 else after
        reward = float(rng.random() < mean)
        if late and t > 600 and decision.action == 1 and reward == 0.0:
            waiting.append((t + late, decision.id))
        else:
            portfolio.learn(decision, reward)
        if any(mark.kind == "drift" for mark in portfolio.history.marks):
            return t
    return None


@contextmanager
def trusting_all_widths() -> Iterator[None]:
    """The control: test the null of bounds whatever order rewards were learned in."""
    rule = LearnerUpdates.may_keep_bound
    LearnerUpdates.may_keep_bound = lambda self, i: True  # type: ignore[method-assign]
    try:
        yield
    finally:
        LearnerUpdates.may_keep_bound = rule  # type: ignore[method-assign]


def rounds_to_alarm(seed: int, before: float = 0.9, after: float = 0.2, change: int = 3_000) -> int | None:
    """Rounds between the drop of the best of five arms and the alarm; None if there is none in 1,000 rounds."""
    problem = DriftingBandit([[0.1, 0.3, 0.5, 0.7, before], [0.1, 0.3, 0.5, 0.7, after]], knots=(change, change + 1))
    portfolio, rng, found = Portfolio([UCB(5)], seed=seed), np.random.default_rng([9, seed]), []
    portfolio.on_event(lambda event: found.append(event) if event.kind == "drift" else None)
    for t in range(1, change + 1_001):
        decision = portfolio.decide(None)
        portfolio.learn(decision, problem.respond(None, decision.action, rng))
        problem.record(0, decision.action, 0.0)
        if found:
            return t - change
    return None


def regrets_after_swap(
    response: str, seeds: Iterable[int], make: Callable[[], Any] | None = None, *, rounds: int = SWAP_ROUNDS
) -> list[float]:
    """Regret after the swap of best and worst, by seed; `make` makes the selector, by default the portfolio's own."""
    logging.disable(logging.WARNING)
    regrets, change = [], rounds // 2
    for seed in seeds:
        problem = DriftingBandit([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]], knots=(change, change + 1))
        learners = [Constant(0), Constant(1), Constant(2)]
        portfolio = Portfolio(learners, None if make is None else make(), seed=seed, on_drift=response)
        rng, total = np.random.default_rng([10, seed]), 0.0
        for t in range(1, rounds + 1):
            decision = portfolio.decide(None)
            gap = problem.gap(None, decision.action)
            total += gap if t > change else 0.0
            portfolio.learn(decision, problem.respond(None, decision.action, rng))
            problem.record(0, decision.action, 0.0)
        regrets.append(total)
    logging.disable(logging.NOTSET)
    return regrets


def summary(values: Sequence[float]) -> str:
    spread = sqrt(fmean((value - fmean(values)) ** 2 for value in values) / len(values))
    return f"mean {fmean(values):6.0f} (s.e. {spread:.0f}), worst {max(values):6.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=10, help="of detection and regret")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    found = [rounds_to_alarm(seed) for seed in range(options.seeds)]
    delays = [delay for delay in found if delay is not None]
    print(f"detection: {len(delays)} of {len(found)}, median {median(delays):.0f} rounds, at most {max(delays)}")
    seeds = range(options.seeds)
    late = sum(bound_alarm(seed) is not None for seed in seeds)
    with trusting_all_widths():
        control = sum(bound_alarm(seed) is not None for seed in seeds)
    real = [t for t in (bound_alarm(seed, late=0, rounds=1_600, after=0.2) for seed in seeds) if t is not None]
    print(f"late zeros, one law: alarms in {late} of {len(seeds)} runs; control, all widths trusted: {control}")
    print(f"both actions poor from round 601 on: alarms in {len(real)} of {len(seeds)} runs, by round {max(real)}")
    for make in (partial(RealizedBalancing, 3), partial(CounterfactualBalancing, 3, learning=["all"] * 3)):
        for response in ("warn", "restart"):
            values = regrets_after_swap(response, range(options.seeds), make)
            name = f"{make.func.__name__}, {response}"
            print(f"regret after the swap, {name}: {summary(values)}; limit of warn {LIMIT:.0f}", flush=True)
    for name in NULLS:
        count = alarms(name, range(options.runs), jobs=options.jobs)
        print(f"{name}: alarms in {count} of {options.runs} runs, at most {DELTA:g} allowed", flush=True)
    few = max(20, options.runs // 10)
    count = alarms("frozen policies", range(few), scale=0.4, jobs=options.jobs)
    print(f"control, frozen policies with 0.4 of the radius: alarms in {count} of {few} runs (must be above {DELTA:g})")


if __name__ == "__main__":
    main()
