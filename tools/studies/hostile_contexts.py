"""Can requests of one client move traffic between learners? `python -m tools.studies.hostile_contexts --seeds 40`.

A narrow and a wide OFUL share a portfolio; only the wide one can represent the rewards. A stream of good requests is
served alone, and with three hostile requests per good one, which the wide learner refuses, or both learners do: later
columns beyond `action_bound`, too few columns, huge numbers. The hostile rounds are
- never: never rewarded,
- deadline: closed by a deadline with the default reward 0,
- rewarded: rewarded by the environment of the good ones,
- withdrawn: withdrawn at once, as a rule would that leaves out of evidence every round whose context some learner
  refuses, whoever was drawn.
The figure is the share of the good rounds that the wide learner acts in, over seeds below 2,000: without and with the
hostile requests, and the difference in standard errors. If the true shares are equal, a difference beyond 3 standard
errors has probability 0.005 or less for 20 seeds or more (Student's t); a table of 9 cases shows one with probability
at most 0.045.

The control turns refusals into failures, as releases before this study did; it must be far beyond 3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from equipoise import Portfolio, Proposal
from equipoise.errors import InvalidArgument, NoLearnerAvailable
from equipoise.features import Offers
from equipoise.learners import OFUL
from equipoise.selectors import RealizedBalancing

NARROW, WIDE, ACTIONS = 2, 6, 5
THETA = np.array([0.1, 0.1, 0.5, -0.5, 0.4, -0.4])
HOSTILE_PER_GOOD = 3
DEADLINE = "40s"  # a request comes every second
MAX_ERRORS = 3.0
MODES = ("never", "deadline", "rewarded", "withdrawn")


class Failing(OFUL):
    """The control: a context that it refuses is a failure of its own."""

    def decide(self, context: Any, rng: Any = None) -> Proposal:
        try:
            return super().decide(context, rng)
        except InvalidArgument as error:
            raise RuntimeError(str(error)) from error


SELECTORS: dict[str, Callable[[], dict[str, Any]]] = {
    "the default": dict,
    "RealizedBalancing": lambda: {"selector": RealizedBalancing(2), "share_data": False},
    "RealizedBalancing, shared data": lambda: {"selector": RealizedBalancing(2), "share_data": True},
}


def portfolio_of(selector: str, seed: int, *, deadline: bool, fails: bool) -> Portfolio:
    make = Failing if fails else OFUL
    settings: dict[str, Any] = {"norm_bound": 1.0, "regularization": 0.1}
    limits: dict[str, Any] = {"deadline": DEADLINE, "default_reward": 0.0} if deadline else {}
    learners = [make(NARROW, name="narrow", **settings), make(WIDE, name="wide", **settings)]
    return Portfolio(learners, **SELECTORS[selector](), seed=seed, **limits)


def good_context(rng: np.random.Generator) -> Offers:
    rows = rng.normal(size=(ACTIONS, WIDE))
    return Offers(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def hostile_context(rng: np.random.Generator) -> Offers:
    rows = good_context(rng).actions
    kind = rng.integers(4)
    if kind == 0:
        return Offers(rows * np.array([1, 1, 1, 1, 1, 10.0]))  # beyond the bound of the wide learner
    if kind == 1:
        return Offers(rows[:, : NARROW + 1])  # too few columns for it
    if kind == 2:
        return Offers(np.where(np.arange(WIDE) < NARROW, rows, 1e12 * rows))
    return Offers(rows[:, :1])  # too few columns for both learners


def reward_of(context: Offers, action: int, rng: np.random.Generator) -> float:
    row = context.actions[action]
    mean = 0.5 + float(row @ THETA[: len(row)])
    return float(rng.random() < min(max(mean, 0.0), 1.0))


@cache
def share(selector: str, mode: str | None, deadline: bool, seed: int, rounds: int, fails: bool = False) -> float:
    """Return the share of the good rounds in which the wide learner acts; no hostile requests if `mode` is None."""
    portfolio = portfolio_of(selector, seed, deadline=deadline, fails=fails)
    good, hostile, time, wide = np.random.default_rng((seed, 1)), np.random.default_rng((seed, 2)), 1.0, 0
    for _ in range(rounds):
        context = good_context(good)
        decision = portfolio.decide(context, at=time)
        wide += decision.learner == 1
        portfolio.learn(decision, reward_of(context, decision.action, good), at=time)
        for k in range(1, 1 + HOSTILE_PER_GOOD if mode is not None else 1):
            bad = hostile_context(hostile)
            try:
                decision = portfolio.decide(bad, at=time + k)
            except (InvalidArgument, NoLearnerAvailable):  # of the control
                continue  # both learners refuse it
            if mode == "withdrawn":
                portfolio.withdraw(decision)
            elif mode == "rewarded":
                portfolio.learn(decision, reward_of(bad, decision.action, hostile), at=time + k)
        time += 1.0 + HOSTILE_PER_GOOD
    return wide / rounds


class Difference(NamedTuple):
    """Shares without and with hostile requests, and their difference in standard errors."""

    alone: float
    beside: float
    errors: float


def compare(alone: Sequence[float], beside: Sequence[float]) -> Difference:
    error = sqrt(np.var(alone, ddof=1) / len(alone) + np.var(beside, ddof=1) / len(beside))
    a, b = float(np.mean(alone)), float(np.mean(beside))
    return Difference(a, b, abs(b - a) / max(error, 1e-9))


def study(selector: str, mode: str, seeds: int, rounds: int, *, fails: bool = False) -> Difference:
    # Other seeds for the two: runs of one seed are no pairs, as hostile rounds take draws.
    deadline = mode == "deadline"
    alone = [share(selector, None, deadline, seed, rounds) for seed in range(seeds)]
    beside = [share(selector, mode, deadline, seed, rounds, fails) for seed in range(1_000, 1_000 + seeds)]
    return compare(alone, beside)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=600, help="good requests of a run")
    parser.add_argument("--selectors", nargs="*", default=list(SELECTORS))
    parser.add_argument("--modes", nargs="*", default=MODES)
    parser.add_argument("--no-control", action="store_true")
    given = parser.parse_args()
    for selector in given.selectors:
        for mode in given.modes:
            for fails in (False,) if given.no_control else (False, True):
                found = study(selector, mode, given.seeds, given.rounds, fails=fails)
                verdict = "within" if found.errors <= MAX_ERRORS else "beyond"
                print(
                    f"{selector}, {mode}{', control' if fails else ''}: {found.alone:.3f} alone, {found.beside:.3f} "
                    f"beside hostile requests, {found.errors:.1f} standard errors: {verdict} {MAX_ERRORS:g}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
