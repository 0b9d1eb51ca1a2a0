"""Coverage and width of every interval that an estimate offers, with known truth, and controls that must fail.

    python -m tools.studies.log_coverage [--logs 2000] [--journals 2000]

Two actions; the policy takes action 1. Prints, for each case and interval at delta 0.05, the share of logs in which it
contains the value and its mean width; the same with the largest weight and the range as they occur in the log; how many
of 300 logs are ever outside at one of 24 looks; the same on journals of portfolios; and the time for 10^6 rounds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

import equipoise
from equipoise import Portfolio, learners
from equipoise.logs import LoggedRounds, Rounds, from_arrays, open_log
from equipoise.logs.estimators import INTERVALS, Estimate, Evaluation, dm, dr, ips
from equipoise.logs.intervals import betting
from equipoise.logs.models import Policy, evaluate
from equipoise.types import Array
from tools.main import run_command

UNIT = (0.0, 1.0)
OTHER = 0.4  # action 0 pays this share of what action 1 would
GREEDY = 0.8  # probability of the better action so far, in adaptive logs
EXPLORE = 0.5  # exploration floor of journals: every action has at least probability 1/4
LOOKS = 24
Found = dict[str, tuple[float, float]]  # share of logs covered, and mean width


def bernoulli(mean: float) -> Callable[[np.random.Generator, int], Array]:
    return lambda rng, n: (rng.random(n) < mean).astype(float)


class Case(NamedTuple):
    rounds: int
    chance: float | None  # of action 1; None: depends on the rewards so far
    rewards: Callable[[np.random.Generator, int], Array]  # of action 1
    value: float  # their mean


CASES = {
    "p = 0.3": Case(500, 0.3, bernoulli(0.5), 0.5),
    "rare action": Case(500, 0.002, bernoulli(0.5), 0.5),
    "jackpots": Case(500, 0.3, bernoulli(0.002), 0.002),
    "large rewards are rare": Case(500, 0.5, lambda rng, n: np.where(rng.random(n) < 0.01, 1.0, 0.05), 0.0595),
    "always logged": Case(500, 0.95, lambda rng, n: rng.random(n), 0.5),
    "adaptive log": Case(500, None, bernoulli(0.5), 0.5),
}
LARGE = {"p = 0.02": Case(20_000, 0.02, bernoulli(0.5), 0.5)}


def run(logs: int = 2_000, journals: int = 2_000) -> None:
    """Print all figures."""
    for seen in (False, True):
        print(f"\nLargest weight and range {'as seen in the log: controls' if seen else 'stated'}, {logs:,} logs")
        show(coverage_of_cases(CASES, logs, seen=seen))
    print(f"\nLarge logs, {logs // 10:,} of them")
    show(coverage_of_cases(LARGE, logs // 10))
    for delta, weighted in ((0.05, True), (0.99, True), (0.05, False)):
        how = "" if weighted else " without importance weights"
        print(f"Ever outside at {LOOKS} times, delta {delta}{how}: {looks(300, delta, weighted=weighted)} of 300")
    if journals:
        print(f"\n{journals:,} journals of 200 rounds")
        show({"journal": coverage_of_journals(journals)})
        distance_of_direct_methods(20)
    speed()


def show(found: Mapping[str, Found]) -> None:
    for name, row in found.items():
        for interval, (covered, width) in row.items():
            print(f"{name:24} {interval:18} covered {covered:.4f}, width {width:.3f}")


def always(action: int) -> Policy:
    def policy(rounds: Rounds) -> Array:
        pmf: Array = np.zeros(rounds.offers.shape[:2])
        pmf[:, action] = 1.0
        return pmf

    return policy


def make_log(case: Case, rng: np.random.Generator) -> LoggedRounds:
    n, own = case.rounds, case.rewards(rng, case.rounds)
    other, draws = OTHER * case.rewards(rng, n), rng.random(n)
    chances, sums, plays = np.full(n, case.chance or 0.0), [0.0, 0.0], [0, 0]
    if case.chance is None:
        for t in range(n):
            first = plays[0] and (not plays[1] or sums[0] / plays[0] > sums[1] / plays[1])
            chances[t] = 1.0 - GREEDY if first else GREEDY
            action = int(draws[t] < chances[t])
            plays[action] += 1
            sums[action] += own[t] if action else other[t]
    actions, pmf = (draws < chances).astype(int), np.stack([1.0 - chances, chances], axis=1)
    return from_arrays(None, actions, np.where(actions, own, other), pmf[np.arange(n), actions], pmf=pmf)


def coverage_of_cases(cases: Mapping[str, Case], logs: int, *, seen: bool = False) -> dict[str, Found]:
    """Coverage and mean width of each interval at delta 0.05; `seen` takes the extremes of the log as known."""
    found = {}
    for name, case in cases.items():
        rng, results = np.random.default_rng(17), []
        for _ in range(logs):
            evaluation = evaluate(make_log(case, rng), always(1), reward_range=UNIT)
            results.append(_judge(_as_seen(evaluation) if seen else evaluation, case.value))
        found[name] = _summarized(results)
    return found


def _as_seen(evaluation: Evaluation) -> Evaluation:
    low, high = evaluation.rewards.min(), evaluation.rewards.max()
    limits = (float(low), float(high)) if low < high else (float(low), float(low) + 1e-3)
    return replace(evaluation, reward_range=limits, max_weight=max(1.0, float(evaluation.weights.max())))


def _judge(evaluation: Evaluation, value: float) -> dict[str, tuple[bool, float]]:
    judged = {}
    for estimate in (ips(evaluation), dr(evaluation)):
        for name in INTERVALS:
            if name not in estimate.refusals and name != "bootstrap":
                found = getattr(estimate, name)(0.05)
                judged[f"{estimate.estimator} {name}"] = (found.contains(value), found.high - found.low)
    return judged


def _summarized(results: list[dict[str, tuple[bool, float]]]) -> Found:
    means = {name: np.mean([result[name] for result in results], axis=0) for name in results[0]}
    return {name: (float(covered), float(width)) for name, (covered, width) in means.items()}


def looks(logs: int, delta: float, *, n_looks: int = LOOKS, weighted: bool = True) -> int:
    """In how many adaptive logs the betting interval is ever wrong at some of several times up to 3,000 rounds."""
    case, wrong = CASES["adaptive log"]._replace(rounds=3_000), 0
    marks = np.unique(np.geomspace(20, case.rounds, n_looks).astype(int))
    rng = np.random.default_rng(23)
    for _ in range(logs):
        (batch,) = make_log(case, rng)
        weights = (batch.actions == 1) / batch.propensities if weighted else np.ones(case.rounds)
        above, below = weights * batch.rewards, weights * (1.0 - batch.rewards)
        wrong += any(not betting(above[:t], below[:t], UNIT, delta).contains(case.value) for t in marks)
    return wrong


def journal_of(path: Path, rounds: int, seed: int) -> None:
    """A portfolio that learns on two actions with prompt rewards."""
    rng = np.random.default_rng([seed, 5])
    draws = rng.random((rounds, 2)) < np.array([0.2, 0.5])
    with equipoise.open(path, Portfolio([learners.UCB(2)], explore=EXPLORE, seed=seed)) as live:
        for t in range(rounds):
            decision = live.decide(None)
            live.learn(decision, float(draws[t, decision.action]))


def coverage_of_journals(journals: int, rounds: int = 200) -> Found:
    results = []
    for seed in range(journals):
        with tempfile.TemporaryDirectory() as folder:
            journal_of(Path(folder, "shop.db"), rounds, seed)
            log = open_log(Path(folder, "shop.db"), n_actions=2)
            evaluation = evaluate(log, always(1), reward_range=UNIT, max_weight=2 / EXPLORE)
        results.append(_judge(evaluation, 0.5))
    return _summarized(results)


def dm_of_a_journal(path: Path, rounds: int, seed: int) -> tuple[Estimate, Estimate]:
    """The direct method on a journal, and on the same rounds as a table."""
    journal_of(path, rounds, seed)
    log = open_log(path, n_actions=2)
    batches = list(log)
    actions, rewards, propensities = (
        np.concatenate([getattr(batch, name) for batch in batches]) for name in ("actions", "rewards", "propensities")
    )
    table = from_arrays(None, actions, rewards, propensities, n_actions=2)
    return dm(evaluate(log, always(1))), dm(evaluate(table, always(1)))


def distance_of_direct_methods(journals: int) -> None:
    distances = []
    for seed in range(journals):
        with tempfile.TemporaryDirectory() as folder:
            journal, table = dm_of_a_journal(Path(folder, "shop.db"), 500, seed)
        distances.append(abs(journal.value - table.value) / table.standard_error)
    print(f"DM on {journals} journals: at most {max(distances):.3g} standard errors from the same rounds as a table")


def speed(rounds: int = 1_000_000) -> None:
    """Of the betting interval, where all terms are different."""
    rng = np.random.default_rng(0)
    p = 0.05 + 0.95 * rng.random(rounds)
    estimate = ips(Evaluation(rng.random(rounds), p, (rng.random(rounds) < p).astype(float), UNIT))
    start = perf_counter()
    low, high = estimate.betting()
    print(f"\nBetting on {rounds:,} rounds: {low:.4f} to {high:.4f} in {perf_counter() - start:.2f} s")


if __name__ == "__main__":
    run_command(run)
