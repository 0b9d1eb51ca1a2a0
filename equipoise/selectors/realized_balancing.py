"""Balancing of realized regret: needs no candidate bounds and stops playing learners whose rewards show large regret.

LB, the highest lower confidence bound on a mean reward that any learner has, is at most the best expected reward, so
n_i LB - U_i is regret that the rewards of learner i show. The realized regret of a learner is max(floor u sqrt(n_i),
n_i LB - U_i), where u measures the observed variation of rewards. A learner is admitted if its realized regret is at
most `slack` times the smallest one. Among the admitted learners, the one with the highest index is due: its mean
reward, extrapolated by its trend, plus an exploration term. It plays unless another learner is neglected: one whose
rewards do not rule out, in units of the reward range, that it is much better than LB. The first and the last rule give
the guarantee; the index improves the choices that they leave open. Candidate bounds, if given, are tested as in
Algorithm 1.

Reference: the proposition and its proof are in docs/realized-balancing.md. The rule builds on Pacchiano, Dann, Gentile
and Bartlett (2020), Algorithm 1, and balances the quantity that Pacchiano, Dann and Gentile (2023), "Data-driven online
model selection with regret guarantees", algorithms 1 and 2, estimate conservatively; the index follows Audibert and
Bubeck (2009), "Minimax policies for adversarial and stochastic bandits" (the MOSS index), in an anytime form.
Symbols: n_i plays, U_i rewards, LB best_lower, phi_i realized_regret, rho floor, u unit, kappa slack, c TOLERANCE,
B NEGLECT, h HEAD_START, w width, M n_learners.

>>> selector = RealizedBalancing(2)
>>> for _ in range(100):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.9 if choice.learner else 0.1)
>>> [standing.plays for standing in selector.standing()]
[20, 80]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from equipoise.bounds import Bound
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors import balanced_elimination
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.evidence import Account, best_mean_lower
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.nested import HasState
from equipoise.selectors._core.settings import (
    ConfidenceSettings,
    LearnerCount,
    check_bounds,
    decode_bounds,
    encode_bounds,
)
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import count, positive, real

RULES = (1, 2)  # rule 1, of files saved before rule 2 existed, has no neglected learners and an LB that never falls
MIN_UNIT = {1: 0.05, 2: 0.2}  # as a fraction of the reward width: the proof needs u > 0
TOLERANCE = 4.5  # a learner may show this much regret, times w sqrt(n), and still be neglected
NEGLECT = 80.0  # by how much, times w / sqrt(plays of the learner that is due), it could be better than LB
HEAD_START = 150.0  # up to this number of plays that margin is 0 ...
HEAD_START_SHARE = 0.25  # ... for learners with less than this share of the plays of the one that is due
EARLY_PLAYS = 100.0  # number of plays of a learner after which its exploration term decreases faster


class Params(NamedTuple):
    evidence: evidence.Params
    floor: float
    slack: float
    optimism: float
    rule: int
    min_unit: float
    tolerance: float
    neglect: float
    head_start: float


class Guard(Protocol):
    """Params with the constants of the guard."""

    @property
    def evidence(self) -> evidence.Params: ...

    @property
    def floor(self) -> float: ...

    @property
    def rule(self) -> int: ...

    @property
    def tolerance(self) -> float: ...

    @property
    def neglect(self) -> float: ...


@dataclass(slots=True)
class Trend:
    """How the rewards of a learner change over its plays."""

    late_mean: float = 0.0  # mean reward over the resolved prefix, play k having weight k


class State(NamedTuple):
    evidence: evidence.State
    trends: list[Trend]


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The admitted learner with the highest index (ties: fewer plays, then lower position), or a neglected one."""
    n_rounds, n_resolved, spread = 0, 0, 0.0
    accounts, width = state.evidence.accounts, params.evidence.width
    for i in range(len(accounts)):
        account = accounts[i]
        if account.active and account.plays == 0:
            return i, 1.0
        n_rounds += account.plays
        n_resolved += account.booked_plays
        spread += account.spread
    deviation = sqrt(spread / n_resolved) if n_resolved > 0 else 0.0
    # Twice the deviation, because that of a fair coin is half its range.
    unit = max(params.min_unit * width, min(width, 2.0 * deviation))
    best_lower, least_regret = lower_bound(params, state), inf
    for i in range(len(accounts)):
        if accounts[i].active:
            least_regret = min(least_regret, realized_regret(params, accounts[i], best_lower, unit))
    chosen, highest, fewest_plays = -1, -inf, 0
    for i in range(len(accounts)):
        account = accounts[i]
        if account.active and realized_regret(params, account, best_lower, unit) <= params.slack * least_regret:
            index = optimistic_mean(params, account, state.trends[i], n_rounds, deviation)
            if index > highest or (index == highest and account.plays < fewest_plays):
                chosen, highest, fewest_plays = i, index, account.plays
    return (chosen if params.rule == 1 else most_neglected(params, state, chosen, best_lower)), 1.0


@kernel
def lower_bound(params: Guard, state: HasState) -> float:
    """LB. It may fall with the means of all learners, so that the learner that attains it has realized regret 0."""
    highest = state.evidence.pool[0].best_lower if params.rule == 1 else best_mean_lower(state.evidence)
    return max(params.evidence.low, highest)


@kernel
def most_neglected(params: Params, state: State, due: int, best_lower: float) -> int:
    """The neglected learner with the fewest plays; if there is none, the learner that is due."""
    accounts, due_plays = state.evidence.accounts, state.evidence.accounts[due].plays
    chosen, fewest_plays = due, due_plays
    for j in range(len(accounts)):
        account = accounts[j]
        fewer = account.active and account.plays < fewest_plays
        if fewer and is_neglected(params, account, due_plays, best_lower, params.head_start):
            chosen, fewest_plays = j, account.plays
    return chosen


@kernel
def is_neglected(params: Guard, account: Account, due_plays: int, best_lower: float, head_start: float) -> bool:
    """Whether an account does not rule out that it is better than LB, by a margin once it has had its head start."""
    tolerated = params.tolerance * sqrt(account.plays)
    if account.plays >= min(head_start, HEAD_START_SHARE * due_plays):
        tolerated -= params.neglect * account.plays / sqrt(due_plays)
    return account.booked_plays * best_lower - account.rewards <= params.evidence.width * tolerated


@kernel
def realized_regret(params: Guard, account: Account, best_lower: float, unit: float) -> float:
    """phi: the regret that the resolved plays of a learner show, and at least the size of chance fluctuations."""
    visible = account.booked_plays * best_lower - account.rewards
    return max(params.floor * unit * sqrt(account.plays), visible)


@kernel
def optimistic_mean(params: Params, account: Account, trend: Trend, n_rounds: int, deviation: float) -> float:
    """The index of a learner; without a resolved play its mean counts as the highest possible reward."""
    log_share = max(0.0, log(n_rounds / account.plays))
    if account.booked_plays == 0:
        mean_reward = params.evidence.high
    else:
        mean_reward = account.rewards / account.booked_plays
        # If rewards grow by h whenever plays grow e-fold, the late mean is h/2 above the mean. Half of the growth up to
        # t plays is added, because learning slows down.
        mean_reward += max(0.0, trend.late_mean - mean_reward) * log_share
    # While a learner still improves, its mean underestimates its future rewards by more than chance.
    fading = min(1.0, sqrt(sqrt(EARLY_PLAYS / account.plays)))
    return mean_reward + params.optimism * deviation * fading * sqrt(2.0 * log_share / account.plays)


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward, then eliminate every learner whose bound its rewards contradict."""
    balanced_elimination.credit(params.evidence, state.evidence, i, reward, regret, probability)
    trend, n = state.trends[i], state.evidence.accounts[i].booked_plays
    trend.late_mean += (reward - trend.late_mean) * 2.0 / (n + 1.0)


def check_rule(name: str, rule: int) -> int:
    return count(name, rule, most=max(RULES))


def check_slack(name: str, slack: float) -> float:
    number = real(name, slack)
    if number < 1.0:
        raise InvalidArgument(f"{name} is {slack!r}, but must be at least 1")
    return number


@configurable
class RealizedBalancing(LearnerCount, ConfidenceSettings, EvidenceSelector[Params, State]):
    """Balances the regret that the rewards of each learner show; the recommended selector.

    Parameters
    ----------
    n_learners
        Number of learners.
    delta
        Failure probability of the selector's statements, in addition to that of the learners.
    reward_range
        Lowest and highest reward; with `noise`, lowest and highest expected reward.
    contexts
        "fixed" if contexts and action sets never change, which narrows the radius; else "random".
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    radius
        Form of the confidence radius: "stitched", "paper" or "bernstein" (bounded rewards only).
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    bounds
        Optional candidate bound per learner; a learner that violates its own is eliminated.
    floor
        Regret per square root of plays (rho) below which learners count as equal, in units of reward variation.
    slack
        How many times the smallest realized regret a learner may have and still be chosen (kappa), at least 1.
    optimism
        Width of the exploration term, in standard deviations of the rewards.
    rule
        2, or 1 for the rule of files saved by earlier releases, which may neglect a learner when rewards vary little.
    """

    name = "Realized balancing"
    separate_lower = True
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit)

    bounds: Sequence[Bound] | None = setting(
        default=None, check=optional(check_bounds), encode=encode_bounds, decode=decode_bounds
    )
    floor: float = setting(default=0.25, check=positive)
    slack: float = setting(default=8.0, check=check_slack)
    optimism: float = setting(default=3.5, check=positive)
    rule: int = setting(default=2, check=check_rule)

    def _set_up(self) -> None:
        if self.bounds is not None and len(self.bounds) != self.n_learners:
            raise InvalidArgument(f"bounds has {len(self.bounds)} entries, but n_learners is {self.n_learners}")
        super()._set_up()

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        return tuple(self.bounds or ())

    def _make_params(self, limits: evidence.Params) -> Params:
        guard = MIN_UNIT[self.rule], TOLERANCE, NEGLECT, HEAD_START
        return Params(limits, self.floor, self.slack, self.optimism, self.rule, *guard)

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [Trend() for _ in range(self.n_learners)])
