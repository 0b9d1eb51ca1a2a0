"""How much selection loses when rewards come late or never: `python -m tools.studies.live_portfolio delays lost`.

Delays: three learners with constant success probabilities .05, .06 and .1, 40,000 rounds, every reward delayed by an
exponential number of rounds. The yardstick is UCB1 over learners, which counts whatever has arrived. Realized balancing
keeps its guarantee and its certificates, which use valid evidence only, and must not pay for that with regret; nor must
counterfactual balancing.
Losses: success probabilities .1, .2 and .7, 20,000 rounds, 1 % of the rewards never arrive, no deadline.

Deadlines: three learners with success probabilities .05, .08 and .12; successes are reported, after 200 rounds on
average, and failures have the default reward at the deadline, after 2,000 rounds. The best learner's share of 20,000
rounds after that must not be smaller than with rewards that come at once.

Regret against the best learner, mean over 20 seeds. Delays "any" and "exogenous" (window three mean delays) give the
same, as with such small means no evidence excludes a learner:

| mean delay in rounds | 500 | 2,000 | 5,000 |
|---|---|---|---|
| UCB1, whatever has arrived | 148 | 156 | 148 |
| realized balancing | 117 | 111 | 135 |
| counterfactual balancing | 69 | 94 | 111 |

Losses, smallest share of the best learner over 20 seeds: realized balancing .970, counterfactual balancing .997, UCB1
.998, EXP3 .991, balanced elimination .973. Where the evidence of realized balancing is blocked early, the best learner
is at times not admitted, and the learner with the least realized regret plays in its place.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.learner import Proposal
from equipoise.learners import Constant
from equipoise.selectors import EXP3, UCB1, BalancedElimination, CounterfactualBalancing, RealizedBalancing

DELAYED, LOSING = (0.05, 0.06, 0.1), (0.1, 0.2, 0.7)
DELAYED_ROUNDS, LOSING_ROUNDS = 40_000, 20_000
MEAN_DELAYS = (500, 2000, 5000)
LOST, WINDOW = 0.01, 200

CONVERSIONS = (0.05, 0.08, 0.12)

Figures: TypeAlias = Iterator[tuple[str, object, bool]]  # what was measured, its value, whether the promise holds


def plays_with_delays(selector: Any, means: Sequence[float], delays: Sequence[float], seed: int) -> list[int]:
    """Plays of each learner, if the reward of round t arrives before round t + 1 + delays[t]; inf for never."""
    rng = np.random.default_rng([2024, seed])
    coins = rng.random(len(delays))
    due: list[tuple[float, int, Any]] = []
    for t, delay in enumerate(delays):
        while due and due[0][0] <= t:
            _, k, choice = heapq.heappop(due)
            selector.credit(choice, float(coins[k] < means[choice.learner]))
        choice = selector.choose()
        if "actions" in selector.needs:
            selector.observe(choice, {i: Proposal(i) for i in range(len(means))})
        heapq.heappush(due, (t + 1 + delay, t, choice))
    return [row.plays for row in selector.standing()]


def share_of_best(deadline: int, *, seeds: int, rounds: int = 20_000, make: Callable[[], Any] | None = None) -> float:
    """Return the share of the best of three learners in the rounds after the first deadline, over all seeds.

    Successes come after a tenth of the deadline on average, failures with the deadline; without one all come at once.
    The rounds begin when the first deadline has passed, since nothing is known before that.
    """
    plays = 0
    for seed in range(seeds):
        rng = np.random.default_rng([2027, seed])
        settings: dict[str, Any] = {"deadline": deadline, "default_reward": 0.0} if deadline else {}
        selector = RealizedBalancing(3) if make is None else make()
        portfolio = Portfolio([Constant(i) for i in range(3)], selector, seed=seed, **settings)
        due: list[tuple[float, str]] = []
        for t in range(rounds + deadline):
            while due and due[0][0] <= t:
                portfolio.learn(heapq.heappop(due)[1], 1.0)
            decision = portfolio.decide(None)
            success, delay = rng.random() < CONVERSIONS[decision.action], rng.exponential(max(deadline, 1) / 10)
            if not deadline:
                portfolio.learn(decision, float(success))
            elif success:
                heapq.heappush(due, (t + delay, decision.id))
            plays += t >= deadline and decision.action == 2
    return plays / (seeds * rounds)


def exogenous(selector: Any, window: int) -> Any:
    selector.configure(delays="exogenous", window=window)
    return selector


def exponential_delays(mean: float, rounds: int, seed: int) -> list[float]:
    return list(np.floor(np.random.default_rng([2025, seed]).exponential(mean, rounds)))


def losses(share: float, rounds: int, seed: int) -> list[float]:
    return list(np.where(np.random.default_rng([2026, seed]).random(rounds) < share, np.inf, 0.0))


def regret(plays: Sequence[int], means: Sequence[float]) -> float:
    return sum(n * (max(means) - mean) for n, mean in zip(plays, means, strict=True))


def delay_selectors(mean_delay: float) -> dict[str, Callable[[], Any]]:
    return {
        "UCB1, whatever has arrived": lambda: UCB1(3),
        'realized balancing, "any"': lambda: RealizedBalancing(3),
        'realized balancing, "exogenous"': lambda: exogenous(RealizedBalancing(3), int(3 * mean_delay)),
        'counterfactual balancing, "any"': counterfactual,
        'counterfactual balancing, "exogenous"': lambda: exogenous(counterfactual(), int(3 * mean_delay)),
    }


def counterfactual() -> CounterfactualBalancing:
    """For three fixed rules that never agree."""
    return CounterfactualBalancing(3, learning=["all"] * 3)


LOSS_SELECTORS: dict[str, Callable[[], Any]] = {
    'realized balancing, "any"': lambda: RealizedBalancing(3),
    'counterfactual balancing, "any"': counterfactual,
    'UCB1, "any"': lambda: UCB1(3),
    'EXP3, "any"': lambda: EXP3(3),
    'balanced elimination, Power(1), "exogenous"': lambda: exogenous(BalancedElimination([Power(1.0)] * 3), WINDOW),
}


def mean_regret(make: Callable[[], Any], mean_delay: float, seeds: int, rounds: int) -> float:
    runs = (
        plays_with_delays(make(), DELAYED, exponential_delays(mean_delay, rounds, seed), seed) for seed in range(seeds)
    )
    return fmean(regret(plays, DELAYED) for plays in runs)


def delays(seeds: int = 20, rounds: int = DELAYED_ROUNDS, mean_delays: Sequence[int] = MEAN_DELAYS) -> Figures:
    """Regret with late rewards, against that of UCB1 over learners."""
    for mean_delay in mean_delays:
        yardstick, *others = delay_selectors(mean_delay).items()
        least = mean_regret(yardstick[1], mean_delay, seeds, rounds)
        yield f"mean delay {mean_delay:,}: regret of {yardstick[0]}", round(least, 1), True
        for label, make in others:
            found = mean_regret(make, mean_delay, seeds, rounds)
            ratio = f"{found:.1f}, {found / least:.2f} times as much (at most 1.5)"
            yield f"mean delay {mean_delay:,}: regret of {label}", ratio, found <= 1.5 * least


def deadlines(seeds: int = 20, rounds: int = 20_000, deadline: int = 2_000) -> Figures:
    """Share of the best learner if failures are known only at the deadline, against prompt rewards."""
    for label, make in {"realized balancing": lambda: RealizedBalancing(3), "counterfactual": counterfactual}.items():
        prompt = share_of_best(0, seeds=seeds, rounds=rounds, make=make)
        late = share_of_best(deadline, seeds=seeds, rounds=rounds, make=make)
        yield f"{label}: share of the best learner with prompt rewards", round(prompt, 3), True
        yield f"{label}: with failures at the deadline", round(late, 3), late >= prompt


def lost(seeds: int = 20) -> Figures:
    """Plays of the best learner if 1 % of the rewards never arrive."""
    for label, make in LOSS_SELECTORS.items():
        share, names_blocker = 1.0, True
        for seed in range(seeds):
            selector = make()
            plays = plays_with_delays(selector, LOSING, losses(LOST, LOSING_ROUNDS, seed), seed)
            share = min(share, plays[-1] / LOSING_ROUNDS)
            names_blocker &= selector.delays != "any" or 2 in selector.blocking()
        what = f"{label}: smallest share of the best learner over {seeds} seeds"
        yield what, round(share, 3), share >= 0.95 and names_blocker
