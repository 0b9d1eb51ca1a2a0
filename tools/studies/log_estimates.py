"""Off-policy estimates on simulated logs with known truth, 1,000 of each.

    python -m tools.studies.log_estimates [--logs 1000]

Coverage in cases that break intervals is in `log_coverage`. Prints bias in standard errors, coverage with the
probability of as many misses or more if the interval were exact, and, where the package vw-estimators is installed,
the largest difference from its estimates.
"""

from __future__ import annotations

import importlib.util

import numpy as np
from scipy import stats

from equipoise.logs import from_arrays
from equipoise.logs.estimators import ESTIMATORS, Evaluation, dr, ips, snips
from equipoise.logs.health import health
from equipoise.logs.intervals import time_uniform
from equipoise.logs.models import evaluate
from equipoise.types import Array
from tools.main import run_command

N_ACTIONS, DIM, FLOOR = 4, 3, 0.4
THETA = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)


def run(logs: int = 1_000) -> None:
    """Print all figures."""
    bias_and_coverage(logs, 1_000)
    snips_bias(20 * logs)
    all_times(logs)
    bootstrap_coverage(logs, 10_000)
    wrong_propensities(logs)
    agreement(logs)


def make_log(rng: np.random.Generator, n: int) -> tuple[Array, Array, Array, Array, Array]:
    """Contexts, mean rewards, logging probabilities, actions and rewards."""
    contexts = rng.normal(size=(n, N_ACTIONS, DIM))
    contexts /= np.linalg.norm(contexts, axis=2, keepdims=True) * (1 + 1e-9)
    means = 0.5 + 0.45 * contexts @ THETA
    scores = np.exp(2.0 * contexts[:, :, 0])
    pmf = (1 - FLOOR) * scores / scores.sum(axis=1, keepdims=True) + FLOOR / N_ACTIONS
    actions = (pmf.cumsum(axis=1) > rng.random(n)[:, None] * (1 - 1e-12)).argmax(axis=1)
    rewards = (rng.random(n) < means[np.arange(n), actions]).astype(float)
    return contexts, means, pmf, actions, rewards


def target(contexts: Array) -> Array:
    scores = np.exp(1.5 * contexts[:, :, -1])
    policy: Array = scores / scores.sum(axis=1, keepdims=True)
    return policy


def bias_and_coverage(logs: int, n: int) -> None:
    rng = np.random.default_rng(1)
    errors: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    misses = dict.fromkeys(("Bernstein", "time uniform", "betting", "betting, DR"), 0)
    for _ in range(logs):
        contexts, means, pmf, actions, rewards = make_log(rng, n)
        value = float((target(contexts) * means).sum(axis=1).mean())
        log = from_arrays(contexts, actions, rewards, pmf[np.arange(n), actions], pmf=pmf)
        found = evaluate(log, lambda batch: target(batch.offers), reward_range=(0.0, 1.0))
        misses["Bernstein"] += not ips(found).bernstein(0.1).contains(value)
        misses["time uniform"] += not ips(found).time_uniform(0.1).contains(value)
        misses["betting"] += not ips(found).betting(0.1).contains(true_value())
        misses["betting, DR"] += not dr(found).betting(0.1).contains(true_value())
        for name, estimator in ESTIMATORS.items():
            errors[name].append(estimator(found).value - value)
    for name, values in errors.items():
        mean, error = float(np.mean(values)), float(stats.sem(values))
        print(f"{name}: bias {mean:+.5f}, {mean / error:+.1f} standard errors; deviation {np.std(values):.4f}")
    for name, count in misses.items():
        print(f"{name} at delta = 0.1: {count} of {logs} miss, p = {stats.binom.sf(count - 1, logs, 0.1):.3g}")


def snips_bias(logs: int) -> None:
    rng = np.random.default_rng(2)
    for n in (20, 80, 320):
        action = rng.random((logs, n)) < 0.2
        weights = np.where(action, 0.9 / 0.2, 0.1 / 0.8)
        rewards = rng.random((logs, n)) < np.where(action, 0.9, 0.1)
        errors = (weights * rewards).sum(axis=1) / weights.sum(axis=1) - 0.82
        print(f"SNIPS at n = {n}: n times the bias {n * errors.mean():+.3f} ± {n * stats.sem(errors):.3f}")


def all_times(logs: int) -> None:
    """A policy that learns: terms with changing expectations, judged at 60 times each."""
    rng, misses = np.random.default_rng(3), 0
    for _ in range(logs):
        n = 3_000
        levels = 0.2 + 0.6 * (np.arange(n) / n) ** 0.5
        accepted = rng.random(n) < 0.25
        terms = np.where(accepted, 4.0, 0.0) * (rng.random(n) < levels)
        running = np.cumsum(levels) / np.arange(1, n + 1)
        misses += any(
            not time_uniform(terms[:t], (0.0, 4.0), 0.1).contains(running[t - 1]) for t in range(50, n + 1, 50)
        )
    print(f"time uniform at 60 times: {misses} of {logs} miss, p = {stats.binom.sf(misses - 1, logs, 0.1):.3g}")


def bootstrap_coverage(logs: int, n: int) -> None:
    rng, covered = np.random.default_rng(4), dict.fromkeys(("IPS", "SNIPS"), 0)
    for _ in range(logs):
        contexts, _, pmf, actions, rewards = make_log(rng, n)
        p, pi = pmf[np.arange(n), actions], target(contexts)[np.arange(n), actions]
        evaluation = Evaluation(rewards, p, pi)
        for name in covered:
            low, high = ESTIMATORS[name](evaluation).bootstrap(0.1, resamples=300)
            covered[name] += low <= true_value() <= high
    for name, count in covered.items():
        print(f"bootstrap of {name} at n = {n:,}: covers in {count / logs:.1%}; states no coverage")


def true_value() -> float:
    """Of the target policy, by 10 million draws; its standard error is below 1e-4."""
    if not hasattr(true_value, "known"):
        rng, total = np.random.default_rng(99), 0.0
        for _ in range(100):
            contexts = rng.normal(size=(100_000, N_ACTIONS, DIM))
            contexts /= np.linalg.norm(contexts, axis=2, keepdims=True)
            total += float((target(contexts) * (0.5 + 0.45 * contexts @ THETA)).sum(axis=1).mean())
        true_value.known = total / 100  # type: ignore[attr-defined]
    known: float = true_value.known  # type: ignore[attr-defined]
    return known


def wrong_propensities(logs: int) -> None:
    rng, caught, alarms = np.random.default_rng(5), 0, 0
    for _ in range(logs):
        contexts, _, pmf, actions, rewards = make_log(rng, 5_000)
        p = pmf[np.arange(5_000), actions]
        alarms += not health(from_arrays(contexts, actions, rewards, p)).passed
        caught += not health(from_arrays(contexts, actions, rewards, np.minimum(1.1 * p, 1.0))).passed
    print(f"health check: {alarms} of {logs} right logs fail, {caught} with propensities 10 % too large")


def agreement(logs: int) -> None:
    if importlib.util.find_spec("estimators") is None:
        print("vw-estimators is not installed, so nothing is compared with it")
        return
    from estimators.bandits import ips as vw_ips  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from estimators.bandits import snips as vw_snips

    rng, largest = np.random.default_rng(6), 0.0
    for _ in range(logs):
        n = int(rng.integers(1, 200))
        p, pi, r = 0.05 + 0.95 * rng.random(n), rng.random(n), rng.normal(size=n)
        evaluation = Evaluation(r, p, pi, reward_range=(-10.0, 10.0))
        for module, own in ((vw_ips, ips), (vw_snips, snips)):
            other = module.Estimator()
            for each in zip(p.tolist(), r.tolist(), pi.tolist(), strict=True):
                other.add_example(*each)
            largest = max(largest, abs(other.get() - own(evaluation).value) / max(1.0, abs(other.get())))
    print(f"vw-estimators, IPS and SNIPS on {logs} logs: largest relative difference {largest:.1e}")


if __name__ == "__main__":
    run_command(run)
