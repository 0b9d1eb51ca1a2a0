"""Balancing of realized regret: needs no candidate bounds and stops playing learners whose rewards show large regret.

LB, the highest lower confidence bound on a mean reward that any learner has, is at most the best expected reward, so
n_i LB - U_i is regret that the rewards of learner i show. The realized regret of a learner is max(floor u sqrt(n_i),
n_i LB - U_i), where u measures the observed variation of rewards. A learner is admitted if its realized regret is at
most `slack` times the smallest one. Among the admitted learners, the one with the highest index is due: its mean
reward, extrapolated by its trend, plus an exploration term. It plays unless another learner is under-sampled: one whose
rewards do not rule out, in units of the reward range, that it is much better than LB. The first and the last rule give
the guarantee; the index improves the choices that they leave open. Candidate bounds, if given, are tested as in
Algorithm 1.

Reference: the proposition and its proof are in docs/realized-balancing.md. The rule builds on Pacchiano, Dann, Gentile
and Bartlett (2020), Algorithm 1, and balances the quantity that Pacchiano, Dann and Gentile (2023), "Data-driven online
model selection with regret guarantees", algorithms 1 and 2, estimate conservatively; the index follows Audibert and
Bubeck (2009), "Minimax policies for adversarial and stochastic bandits" (the MOSS index), in an anytime form.
Symbols: n_i plays, U_i rewards, LB best_lower, phi_i `realized_regrets`, rho floor, u unit, kappa slack, c TOLERANCE,
B NEGLECT, h head_start, w width, M n_learners.

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
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import Elimination
from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import add_spread
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.kernels import Arrivals, Kernels, add_arrival, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import check_bounds, decode_bounds, encode_bounds
from equipoise.selectors.balanced_elimination import credit_inside
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import count, non_negative, positive, real
from equipoise.types import Config

MIN_UNIT = 0.2  # as a fraction of the reward width: the proof needs u > 0
TOLERANCE = 4.5  # a learner may show this much regret, times w sqrt(n), and still be under-sampled
NEGLECT = 80.0  # by how much, times w / sqrt(plays of the learner that is due), it could be better than LB
HEAD_START = 150.0  # by default: up to this number of plays that margin is 0 ...
HEAD_START_SHARE = 0.25  # ... for learners with less than this share of the plays of the one that is due
MIN_DROP = 4.0  # standard errors by which the late mean must be below the mean to count as a drop in reward
EARLY_PLAYS = 100.0  # number of plays of a learner after which its exploration term decreases faster


class Params(NamedTuple):
    evidence: evidence.Params
    floor: float
    slack: float
    optimism: float
    min_unit: float
    tolerance: float
    neglect: float
    head_start: float
    all_shared: bool = False  # whether all learners learn from all rounds, in counterfactual balancing


@dataclass(slots=True)
class Trend(Arrivals):
    """The rewards of a learner that have arrived, and how they change."""

    late_mean: float = 0.0  # mean of the rewards that have arrived, the k-th having weight k
    spread: float = 0.0  # sum of their squared deviations from their running mean


class State(NamedTuple):
    evidence: evidence.State
    trends: list[Trend]


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The admitted learner with the highest index (ties: fewer plays, then lower position), or an under-sampled one.

    The mean in the index counts as the highest possible reward before the first reward has arrived.
    If a learner with a higher index is not admitted only because rewards of it that have arrived do not count yet, the
    learner with the smallest realized regret plays, so that the other one is soon admitted again.
    """
    limits, accounts, trends = params.evidence, state.evidence.accounts, state.trends
    n_rounds, n_counted, spread, n_arrived, arrived_spread = 0, 0, 0.0, 0, 0.0
    for i, (account, trend) in enumerate(zip(accounts, trends)):  # noqa: B905  compiled code knows no `strict`
        plays = account.plays
        if plays == 0 and account.active:
            return i, 1.0
        n_rounds += plays
        n_counted += account.booked_plays
        spread += account.spread
        n_arrived += trend.plays
        arrived_spread += trend.spread
    counted_deviation = sqrt(spread / n_counted) if n_counted > 0 else 0.0
    deviation = sqrt(arrived_spread / n_arrived) if n_arrived > 0 else 0.0
    # Twice the deviation, because that of a fair coin is half its range.
    unit, least_unit = 2.0 * counted_deviation, params.min_unit * limits.width
    if unit > limits.width:
        unit = limits.width
    if unit < least_unit:
        unit = least_unit
    best_lower, rewards_wait = lower_bound(params, accounts), n_arrived > n_counted
    regrets, least = realized_regrets(accounts, best_lower, params.floor * unit)
    limit, scale = params.slack * regrets[least], params.optimism * deviation
    due, highest, fewest_plays = least, -inf, 0
    for i, (account, trend) in enumerate(zip(accounts, trends)):  # noqa: B905  compiled code knows no `strict`
        if regrets[i] <= limit or (rewards_wait and is_held_up(account, trend, best_lower, limit)):
            plays, n_arrived = account.plays, trend.plays
            log_share = log(n_rounds / plays)  # never negative
            if n_arrived == 0:
                index = limits.high
            else:
                index = trend.rewards / n_arrived
                # If rewards grow by h whenever plays grow e-fold, the late mean is h/2 above the mean. Half of the
                # growth up to t plays is added, because learning slows down.
                growth = trend.late_mean - index
                if growth > 0.0:
                    index += growth * log_share
                else:
                    index -= deviation * fallen(trend, account, deviation)
            # While a learner still improves, its mean underestimates its future rewards by more than chance.
            fading = sqrt(sqrt(EARLY_PLAYS / plays)) if plays > EARLY_PLAYS else 1.0
            index += scale * fading * sqrt(2.0 * log_share / plays)
            if index > highest or (index == highest and plays < fewest_plays):
                due, highest, fewest_plays = i, index, plays
    if regrets[due] > limit:
        due = least
    return most_under_sampled(params, accounts, due, best_lower), 1.0


@kernel
def fallen(trend: Trend, account: Account, deviation: float) -> float:
    """How clearly the rewards of a learner have dropped, from 0 to 1: standard errors of the late mean beyond MIN_DROP.

    That mean less the plain one has, while nothing changes, the variance s^2/(3 n). It shows a drop after about
    s sqrt(n) plays, when the plain mean of many good plays has hardly moved. It says nothing unless rewards came in the
    order of plays: the last to arrive may be the poor ones, such as visits without a purchase at their deadline.
    """
    plays = trend.plays
    if plays != account.plays or plays == 0 or deviation <= 0.0:
        return 0.0
    below = trend.rewards / plays - trend.late_mean
    if below <= 0.0:
        return 0.0
    drop = below * sqrt(3.0 * plays) / deviation - MIN_DROP
    # Spreads are around running means, so they differ by more than rounding where the orders do.
    if drop <= 0.0 or abs(trend.spread - account.spread) > 1e-9 * account.spread:
        return 0.0
    return min(1.0, drop)


@kernel
def is_held_up(account: Account, trend: Trend, best_lower: float, limit: float) -> bool:
    """Whether a learner above the limit is there because of its floor alone, while rewards of it do not count yet."""
    waits = account.active and trend.plays > account.booked_plays
    return waits and account.booked_plays * best_lower - account.rewards <= limit


@kernel
def lower_bound(params: Params, accounts: list[Account]) -> float:
    """LB. It may fall with the means of all learners, so that the learner that attains it has realized regret 0."""
    best_lower = params.evidence.low
    for account in accounts:
        if account.mean_lower > best_lower:
            best_lower = account.mean_lower
    return best_lower


@kernel
def most_under_sampled(params: Params, accounts: list[Account], due: int, best_lower: float) -> int:
    """The under-sampled learner with the fewest plays; if there is none, the learner that is due."""
    due_plays, head_start = accounts[due].plays, params.head_start
    chosen, fewest_plays = due, due_plays
    for j, account in enumerate(accounts):
        fewer = account.plays < fewest_plays and account.active
        if fewer and is_under_sampled(params, account, due_plays, best_lower, head_start):
            chosen, fewest_plays = j, account.plays
    return chosen


@kernel
def is_under_sampled(params: Params, account: Account, due_plays: int, best_lower: float, head_start: float) -> bool:
    """Whether an account does not rule out that it is better than LB, by a margin once it has had its head start."""
    plays = account.plays
    tolerated = params.tolerance * sqrt(plays)
    if plays >= head_start or plays >= HEAD_START_SHARE * due_plays:
        tolerated -= params.neglect * plays / sqrt(due_plays)
    return account.booked_plays * best_lower - account.rewards <= params.evidence.width * tolerated


@kernel
def realized_regrets(accounts: list[Account], best_lower: float, floor: float) -> tuple[list[float], int]:
    """phi of all accounts, inf for inactive ones, and the first account that has the smallest; `floor` is rho u.

    phi is the regret that the counted plays of a learner show, and at least the size of chance fluctuations.
    """
    regrets, least, smallest = [inf] * len(accounts), -1, inf
    for i, account in enumerate(accounts):
        if account.active:
            regret = floor * sqrt(account.plays)
            visible = account.booked_plays * best_lower - account.rewards
            if visible > regret:
                regret = visible
            regrets[i] = regret
            if regret < smallest:
                least, smallest = i, regret
    return regrets, least


@kernel
def arrive(params: Params, state: State, i: int, reward: float, probability: float) -> None:
    """Add a reward to what the index uses."""
    trend, limits = state.trends[i], params.evidence
    middle = (limits.low + limits.high) / 2
    trend.spread = add_spread(trend.spread, trend.plays, trend.rewards, middle, reward)
    add_arrival(trend, reward)
    trend.late_mean += (reward - trend.late_mean) * 2.0 / (trend.plays + 1.0)


def slack_setting(event: str, default: float) -> Any:
    doc = f"Multiple of the smallest realized regret at which {event} (kappa), at least 1."
    return setting(doc, check_slack, default=default)


def floor_setting() -> Any:
    doc = "Regret per square root of plays (rho), in reward variations, that counts as equal."
    return setting(doc, positive, default=0.25)


def check_slack(name: str, slack: float) -> float:
    number = real(name, slack)
    if number < 1.0:
        raise InvalidArgument(f"{name} is {slack!r}, but must be at least 1")
    return number


@configurable
class RealizedBalancing(KernelSelector[Params, State, Elimination]):
    """Balances the regret that the rewards of each learner show; recommended for learners that learn from own plays."""

    name = "Realized balancing"
    explanation = (
        "Among the learners whose rewards show little regret compared with the least, the one plays that has the "
        "highest mean reward, extrapolated by its trend, plus an exploration term that decreases with its plays."
    )
    separate_lower = True
    refuses_learners = ""
    reconfigurable = ("floor", "slack", "optimism")
    restart_settings: ClassVar[Config] = {"head_start": 0.0}
    state_type = State
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit_inside, arrive=arrive)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    bounds: Sequence[Bound] | None = setting(
        "Candidate bound per learner; a learner that violates its own is eliminated. Default: none.",
        optional(check_bounds),
        default=None,
        encode=encode_bounds,
        decode=decode_bounds,
    )
    floor: float = floor_setting()
    slack: float = slack_setting("a learner is chosen", 8.0)
    optimism: float = setting(
        "Width of the exploration term, in standard deviations of the rewards.", positive, default=3.5
    )
    head_start: float = setting(
        "Plays of a learner up to which it is chosen however poor it looks, as long as it may still be the "
        "best; 0 after a restart, since learners keep what they have learned.",
        non_negative,
        default=HEAD_START,
    )

    def _set_up(self) -> None:
        if self.bounds is not None and len(self.bounds) != self.n_learners:
            raise InvalidArgument(f"bounds has {len(self.bounds)} entries, but n_learners is {self.n_learners}")
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        guard = MIN_UNIT, TOLERANCE, NEGLECT, self.head_start
        return Params(limits, self.floor, self.slack, self.optimism, *guard)

    def _make_row(self) -> Trend:
        return Trend()
