"""Statements and propensities when learners fail: `python -m tools.studies.live_portfolio intervals mean_weights`.

Intervals: settings in which a visitor has x = 0 with probability .3, every action pays x, and the optimum is .7, so
that no learner has any regret. What happens at x = 0 differs:
- raises: learner 0 raises an error,
- excluded: the caller excludes learner 0 by `available=`,
- fallback: both learners raise an error, and the fallback acts,
- norms: one of two OFUL with feature maps refuses the offers, whose norm is above its `action_bound`.
A run of 2,000 rounds is false if the interval of the optimum misses .7 at one of 100 checks, or a learner is
eliminated. With delta = .05 at most .05 of the runs may be false. The control credits the substitute, as in a trial
that drops the patients who did not take their drug.

Weights: mean of pi(a) / propensity over rounds, for pi uniform over the offers; it must be 1 within 4 standard errors
for every selector that runs in a portfolio, with an exploration floor, masks, a learner that joins late, and failures
that depend on the context. The control takes q, the probability given the proposals that were drawn. `LinearThompson`
has no `pmf`: where it can be drawn, the propensity must be unknown, and `health()` must say why.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from equipoise import Choice, Portfolio, Proposal
from equipoise.bounds import Power
from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.features.maps import Prefix
from equipoise.learners import OFUL, Constant, EpsilonGreedy, LinearThompson, SquareCB
from equipoise.selectors import (
    D3RB,
    ED2RB,
    EXP3,
    UCB1,
    BalancedElimination,
    Corral,
    CounterfactualBalancing,
    DynamicBalancing,
    GreedyMean,
    RealizedBalancing,
    RegretBalancing,
    Uniform,
)
from tools.studies.late_rewards import Figures

RARE, OPTIMUM, ROUNDS, CHECK_EVERY = 0.3, 0.7, 2_000, 20
FALSE_ALARM = 1e-3

CERTIFYING: dict[str, Callable[[], Any]] = {
    "RealizedBalancing": lambda: RealizedBalancing(2),
    "BalancedElimination": lambda: BalancedElimination([Power(1.0)] * 2),
    "D3RB": lambda: D3RB(2),
    "CounterfactualBalancing": lambda: CounterfactualBalancing(2, learning=["all", "all"]),
}


class Refuses:
    """Raises an error where x is 0, and plays the first action elsewhere."""

    randomized, learns = False, False
    accepts = frozenset({"off_policy"})

    def __init__(self, name: str) -> None:
        self.name = name

    def decide(self, context: int) -> Proposal:
        if context == 0:
            raise RuntimeError("not for this visitor")
        return Proposal(0)

    def learn(self, context: Any, action: Any, reward: float) -> None: ...


def _refusing(selector: Any, seed: int) -> Portfolio:
    return Portfolio([Refuses("zero"), Constant(0)], selector, seed=seed)


def _excluding(selector: Any, seed: int) -> Portfolio:
    return Portfolio([Constant(1, name="zero"), Constant(0)], selector, seed=seed)


def _falling_back(selector: Any, seed: int) -> Portfolio:
    return Portfolio([Refuses("zero"), Refuses("one")], selector, seed=seed, fallback=1)


def _by_norm(selector: Any, seed: int) -> Portfolio:
    learners = [OFUL(features=Prefix(2), action_bound=0.9), OFUL(features=Prefix(2), action_bound=2.0)]
    return Portfolio(learners, selector, seed=seed)


SHORT, LONG = np.array([[0.3, 0.5], [0.5, 0.3]]), np.array([[0.7, 0.9], [0.9, 0.7]])
SETTINGS: dict[str, tuple[Callable[[Any, int], Portfolio], Callable[[int], Any]]] = {
    "raises": (_refusing, lambda x: x),
    "excluded": (_excluding, lambda x: None),
    "fallback": (_falling_back, lambda x: x),
    "norms": (_by_norm, lambda x: SHORT if x else LONG),
}


def _is_false(certificate: Any) -> bool:
    return not (certificate.consistent and certificate.optimum_lower <= OPTIMUM <= certificate.optimum_upper)


def false_run(setting: str, selector: str, seed: int, rounds: int = ROUNDS) -> bool:
    """Whether a statement of the portfolio was false in a run."""
    make, context_of = SETTINGS[setting]
    portfolio, rng = make(CERTIFYING[selector](), seed), np.random.default_rng([1, seed])
    for t in range(1, rounds + 1):
        x = int(rng.random() >= RARE)
        available = portfolio.learner_names[1:] if setting == "excluded" and x == 0 else None
        portfolio.learn(portfolio.decide(context_of(x), available=available), float(x))
        if t % CHECK_EVERY == 0 and _is_false(portfolio.certificate()):
            return True
    return bool(getattr(portfolio.selector, "eliminations", ()))


def false_control(selector: str, seed: int, rounds: int = ROUNDS) -> bool:
    """The setting `raises`, with the reward credited to the substitute."""
    chosen, rng = CERTIFYING[selector](), np.random.default_rng([1, seed])
    for t in range(1, rounds + 1):
        x = int(rng.random() >= RARE)
        proposals, choice = {0: Proposal(0), 1: Proposal(0)}, chosen.choose()
        if choice.learner == 0 and x == 0:
            chosen.withdraw(choice)
            if 1 not in chosen.active:
                return True
            choice = chosen.choose(available=[1])
            del proposals[0]
        chosen.observe(choice, proposals)
        chosen.credit(choice, float(x))
        if t % CHECK_EVERY == 0 and _is_false(chosen.certificate()):
            return True
    return bool(chosen.eliminations)


def intervals(runs: int = 200) -> Figures:
    """False runs of every setting and selector, and of the control."""
    for name in CERTIFYING:
        for setting in SETTINGS:
            false = sum(false_run(setting, name, seed) for seed in range(runs))
            yield f"{name}, {setting}: false runs of {runs}", false, false <= 0.05 * runs
    for name in CERTIFYING:
        false, some = sum(false_control(name, seed) for seed in range(max(20, runs // 10))), max(20, runs // 10)
        caught = binomtest(false, some, 0.05, alternative="greater").pvalue < FALSE_ALARM
        yield f"{name}, crediting the substitute (control, must be many): false runs of {some}", false, bool(caught)


def _selectors() -> dict[str, Callable[[list[Any]], Any]]:
    bounds = [Power(1.0)] * 2
    return {
        "RealizedBalancing": lambda _: RealizedBalancing(2),
        "BalancedElimination": lambda _: BalancedElimination(bounds),
        "RegretBalancing": lambda _: RegretBalancing(bounds),
        "DynamicBalancing": lambda _: DynamicBalancing(bounds),
        "D3RB": lambda _: D3RB(2),
        "ED2RB": lambda _: ED2RB(2),
        "UCB1": lambda _: UCB1(2),
        "GreedyMean": lambda _: GreedyMean(2),
        "EXP3": lambda _: EXP3(2),
        "Uniform": lambda _: Uniform(2),
        "Corral": lambda _: Corral(2, rounds=ROUNDS),
        "CounterfactualBalancing": lambda learners: CounterfactualBalancing.for_learners(learners, share_data=True),
    }


SELECTORS = _selectors()
K, D = 4, 3
FLOOR, MIN_KNOWN = 0.2, 100  # with fewer known propensities the standard error is not known either
LEARNERS: dict[str, Callable[[int], Any]] = {
    "SquareCB": lambda seed: SquareCB(D, seed=seed, action_bound=2.0),
    "LinearThompson": lambda seed: LinearThompson(D, seed=seed, action_bound=2.0),
    "EpsilonGreedy": lambda seed: EpsilonGreedy(K, epsilon=0.5, seed=seed),
}


class Moody:
    """A learner that raises an error where the first feature of the first offer is high."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.name = learner, f"moody {learner.name}"
        self.accepts, self.provides = learner.accepts, learner.provides
        self.randomized, self.learns = learner.randomized, True

    def decide(self, context: Any, rng: Any = None) -> Any:
        if context.actions[0, 0] > 0.7:
            raise RuntimeError("not now")
        return self.learner.decide(context, rng)

    def learn(self, *given: Any, **more: Any) -> None:
        self.learner.learn(*given, **more)

    def pmf(self, context: Any) -> Any:
        return self.learner.pmf(context)


class Weights(NamedTuple):
    """The mean importance weight of the rounds with a known propensity, and the share of the others."""

    mean: float
    error: float  # standard
    unknown: float
    reasons: tuple[str, ...]  # in `health()`

    @property
    def holds(self) -> bool:
        return abs(self.mean - 1.0) <= 4.0 * self.error


def weights(kind: str, selector: str, seed: int, rounds: int, floor: float = FLOOR, by_q: bool = False) -> Weights:
    """Play with masks, failures, a learner that joins in the middle; weigh every round, by q for the control."""
    learners = [LEARNERS[kind](seed), Moody(LEARNERS[kind](seed + 1))]
    portfolio = Portfolio(learners, SELECTORS[selector](learners), seed=seed, explore=floor)
    rng, found, unknown = np.random.default_rng([2, seed]), [], 0
    choices: list[Any] = []
    portfolio.on_event(lambda event: choices.append(event.data["choice"]) if event.kind == "decided" else None)
    for t in range(rounds):
        if t == rounds // 2:
            try:
                bound = Power(1.0) if "bounds" in portfolio.selector.needs else None
                portfolio.add_learner(LEARNERS[kind](seed + 2), bound=bound)
            except InvalidArgument:
                pass  # the selector takes no more learners
        features, mask = rng.random((K, D)), rng.random(K) < 0.8
        mask[rng.integers(K)] = True
        offers = Offers(features, mask=mask)
        decision = portfolio.decide(offers, propensity=True)
        chance = decision.propensity
        if by_q:
            chance = portfolio.selector.propensity(Choice(*choices[-1]))
        if isnan(chance):
            unknown += 1
        else:
            found.append(1.0 / mask.sum() / chance)
        portfolio.learn(decision, float(rng.random() < features[decision.action, 0]))
    reasons = tuple(portfolio.health()["unknown_propensities"])
    if len(found) < MIN_KNOWN:
        return Weights(1.0, 0.0, unknown / rounds, reasons)
    return Weights(float(np.mean(found)), float(np.std(found)) / sqrt(len(found)), unknown / rounds, reasons)


def mean_weights(rounds: int = 10_000) -> Figures:
    """Mean importance weights for every learner and selector, and of the control."""
    for kind in LEARNERS:
        for selector in SELECTORS:
            if selector == "Corral" and kind == "SquareCB":
                continue  # it does not accept weights
            got = weights(kind, selector, 0, rounds)
            about = f"{got.mean:.4f} +- {got.error:.4f}, unknown {got.unknown:.2f}"
            explained = bool(got.reasons) == (got.unknown > 0.0) and (got.unknown == 0.0) == (kind != "LinearThompson")
            yield f"{kind}, {selector}: mean weight", about, got.holds and explained
    for kind in ("SquareCB", "LinearThompson"):
        got = weights(kind, "CounterfactualBalancing", 0, rounds, floor=0.0, by_q=True)
        about = f"{got.mean:.4f} +- {got.error:.4f}"
        yield f"{kind}, CounterfactualBalancing: mean weight by q (control, must fail)", about, not got.holds
