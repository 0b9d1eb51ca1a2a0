"""Late rewards with learners that wait for them: joint runs through a portfolio, which learns in order.

Tapes hold learners that learned at once, so they cannot show what learning in order protects: if zeros come later than
ones, a learner that learns at once sees too many ones, and its ellipsoid fails. Here zeros come 500 rounds late. In the
other setting, a burst of episodes of LSVI-UCB is decided before any of their rewards comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from equipoise.bounds import Observed
from equipoise.lab.audit.claims import Seen
from equipoise.lab.experiments.tracked_oful import TrackedOFUL
from equipoise.learners import LSVI_UCB, OFUL
from equipoise.learners._core.trajectory import Trajectory
from equipoise.portfolio import Decision, Portfolio
from equipoise.problems import LinearBandit
from equipoise.selectors import BalancedElimination

LATE = 500  # delay of zeros, in rounds
DIM, NORM_BOUND = 4, 1.1
MEANS, BONUS, BURST = (0.95, 0.05), 0.2, 500


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
    """LSVI-UCB with two actions plays `rounds` episodes, each of which is learned at once, and goes on until its plan
    explores the poor action. Then it decides `BURST` episodes under that plan before their rewards come, in order for
    even seeds and in any order for odd ones. With `present_plan` the widths are those of the plan when a reward comes.
    """
    learner = LSVI_UCB([[[1.0, 0.0], [0.0, 1.0]]], horizon=1, episodes=5000, bonus=BONUS)
    portfolio = Portfolio([learner], BalancedElimination([Observed()]), seed=seed)
    rng, lost = np.random.default_rng([7, seed]), [0.0]

    def decide() -> Decision:
        decision = portfolio.decide(0)
        lost.append(lost[-1] + MEANS[0] - MEANS[decision.action[0, 0]])
        return decision

    def learn(decision: Decision) -> None:
        action = int(decision.action[0, 0])
        reward = float(rng.random() < MEANS[action])
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
