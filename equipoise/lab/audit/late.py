"""Late rewards: delays that depend on rewards or contexts, and learners that wait for rewards in order.

In `late_coins`, one learner without regret tosses a coin: of probability 3/4 in half of the contexts, 1/4 in the
others, so the optimum is 1/2. Under delays "any" its certificates hold whatever the delays depend on; declared
exogenous, a play without a reward is left out after `WINDOW` rounds, which is valid only if delays are independent of
contexts and rewards.

The others are joint runs through a portfolio, which learns in order: if zeros come later than ones, a learner that
learns at once, as those on tapes do, sees too many ones, and its ellipsoid fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import TypeAlias

import numpy as np

from equipoise.bounds import Observed, Power
from equipoise.lab.audit.claims import Seen
from equipoise.lab.experiments.tracked_oful import TrackedOFUL
from equipoise.learners import LSVI_UCB, OFUL
from equipoise.learners._core.trajectory import Trajectory
from equipoise.portfolio import Decision, Portfolio
from equipoise.problems import LinearBandit
from equipoise.selector import Choice
from equipoise.selectors import BalancedElimination

WINDOW = 20  # rounds; also the mean delay
OPTIMUM, COIN_MEANS = 0.5, (0.25, 0.75)
LATE = 500  # delay of zeros, in rounds
DIM, NORM_BOUND = 4, 1.1
ACTION_MEANS, BONUS, BURST = (0.95, 0.05), 0.2, 500
DelayOf: TypeAlias = Callable[[np.random.Generator, float, float], float]  # of generator, expected reward and reward


def independent(rng: np.random.Generator, mean: float, reward: float) -> float:
    return rng.exponential(WINDOW)


def by_reward(rng: np.random.Generator, mean: float, reward: float) -> float:
    return rng.exponential(WINDOW) if reward else 10.0 * WINDOW


def by_context(rng: np.random.Generator, mean: float, reward: float) -> float:
    return rng.exponential(WINDOW) if mean > OPTIMUM else 10.0 * WINDOW


def late_coins(seed: int, rounds: int, delay_of: DelayOf, *, exogenous: bool = False) -> Iterator[Seen]:
    """Whether the certificate ever excludes the optimum; `exogenous` is what is declared, whatever `delay_of` does."""
    rng, selector = np.random.default_rng([8, seed]), BalancedElimination([Power(0.01)])
    if exogenous:
        selector.configure(delays="exogenous", window=WINDOW)
    due: dict[int, list[tuple[Choice, float]]] = {}
    beyond, can_fail = -inf, False
    for t in range(rounds):
        for choice, reward in due.pop(t, ()):
            selector.credit(choice, reward)
        mean = COIN_MEANS[int(rng.random() < 0.5)]
        reward = float(rng.random() < mean)
        arrival = t + 1 + int(delay_of(rng, mean, reward))
        due.setdefault(arrival, []).append((selector.choose(), reward))
        if t % 20 == 19:
            certificate = selector.certificate()
            lower, upper = certificate.optimum_lower, certificate.optimum_upper
            beyond = max(beyond, lower - OPTIMUM, OPTIMUM - upper)
            can_fail |= lower > 0.0 or upper < 1.0
    yield Seen("certificate", 0.0, beyond, beyond > 0.0, can_fail)


VALID_DELAYS: dict[str, Callable[[int, int], Iterator[Seen]]] = {
    "exogenous delays with a window": partial(late_coins, delay_of=independent, exogenous=True),
    "delays by the reward": partial(late_coins, delay_of=by_reward),
    "delays by the context": partial(late_coins, delay_of=by_context),
}


def late_zeros(seed: int, rounds: int, *, delays: str = "any") -> Iterator[Seen]:
    """OFUL on two of four features, and on all of them; rewards of 0 come late."""
    problem = LinearBandit(DIM, DIM, 10, seed=seed)
    tracked = TrackedOFUL(problem.params.theta, norm_bound=NORM_BOUND)
    portfolio = Portfolio(
        [OFUL(2, norm_bound=NORM_BOUND), tracked], BalancedElimination([Observed()] * 2), seed=seed, delays=delays
    )
    rng, waiting = np.random.default_rng([6, seed]), deque[tuple[int, Decision]]()
    lost: list[list[float]] = [[0.0], [0.0]]  # regret of each learner after each of its plays
    regret, excess, exceeded, eliminated = 0.0, -np.inf, -np.inf, False
    for t in range(rounds):
        context = problem.observe(rng)
        decision = portfolio.decide(context)
        gap = problem.gap(context, decision.action)
        regret += gap
        assert decision.learner is not None
        lost[decision.learner].append(lost[decision.learner][-1] + gap)
        if problem.respond(context, decision.action, rng):
            portfolio.learn(decision, 1.0)
        else:
            waiting.append((t + LATE, decision))
        while waiting and waiting[0][0] <= t:
            portfolio.learn(waiting.popleft()[1], 0.0)
        if t % 10 == 9:
            excess = max(excess, regret - portfolio.certificate().regret_upper)
            exceeded = max(exceeded, _beyond_bound(portfolio, 1, lost[1]))
            eliminated |= 1 not in portfolio.selector.active
    certified, account = portfolio.certificate().regret_upper, portfolio.selector.evidence.accounts[1]
    yield Seen("ellipsoid", 1.0, tracked.largest_ratio, tracked.largest_ratio > 1.0)
    yield Seen("declared", 0.0, exceeded, exceeded > 1e-9, account.booked_bound < account.booked_plays)
    yield Seen("eliminated", 0.0, float(eliminated), eliminated, account.booked_bound < account.booked_plays)
    yield Seen("certificate", certified, regret, excess > 1e-9, certified < rounds)


def overlapping_episodes(seed: int, rounds: int, *, present_plan: bool = False) -> Iterator[Seen]:
    """LSVI-UCB with two actions plays `rounds` episodes, each of which is learned at once, and continues until its plan
    explores the poor action. Then it decides `BURST` episodes under that plan before their rewards come, in order for
    even seeds and in any order for odd ones. With `present_plan` the widths come from the plan when a reward comes.
    """
    learner = LSVI_UCB([[[1.0, 0.0], [0.0, 1.0]]], horizon=1, episodes=5000, bonus=BONUS)
    portfolio = Portfolio([learner], BalancedElimination([Observed()]), seed=seed)
    rng, lost = np.random.default_rng([7, seed]), [0.0]

    def decide() -> Decision:
        decision = portfolio.decide(0)
        lost.append(lost[-1] + ACTION_MEANS[0] - ACTION_MEANS[decision.action[0, 0]])
        return decision

    def learn(decision: Decision) -> None:
        action = int(decision.action[0, 0])
        reward = float(rng.random() < ACTION_MEANS[action])
        episode = Trajectory([0], [action], [reward])
        bound = learner.regret_of(episode) if present_plan else portfolio.regret_of(decision, episode)
        portfolio.learn(decision, reward, outcome=episode, regret=bound)

    n = 0
    while n < min(rounds, 500) or (n < 3 * rounds and learner.memory.policy[0, 0] == 0):
        learn(decide())
        n += 1
    opened = [decide() for _ in range(BURST)]
    for k in range(BURST) if seed % 2 == 0 else rng.permutation(BURST):
        learn(opened[k])
    beyond = _beyond_bound(portfolio, 0, lost)
    account, certified = portfolio.selector.evidence.accounts[0], portfolio.certificate().regret_upper
    yield Seen("declared", 0.0, beyond, beyond > 1e-9, account.booked_bound < account.booked_plays)
    yield Seen("certificate", certified, lost[-1], lost[-1] > certified + 1e-9, certified < account.plays)


def _beyond_bound(portfolio: Portfolio, i: int, lost: list[float]) -> float:
    """By how much the regret of learner i in its resolved plays is above its bound."""
    account = portfolio.selector.evidence.accounts[i]
    return float(lost[account.booked_plays] - account.booked_bound)


IN_ORDER: dict[str, Callable[[int, int], Iterator[Seen]]] = {
    "zeros come late": late_zeros,
    "overlapping episodes": overlapping_episodes,
}
