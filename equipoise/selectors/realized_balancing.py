"""Balancing of realized regret: needs no candidate bounds and stops playing learners whose rewards show large regret.

LB, the highest lower confidence bound on a mean reward that any learner has had, is at most the best expected reward,
so n_i LB - U_i is regret that the rewards of learner i show. The realized regret of a learner is max(floor u sqrt(n_i),
n_i LB - U_i), where u measures the observed variation of rewards. A learner is admitted if its realized regret is at
most `slack` times the smallest one. Among the admitted learners, the one with the highest index plays: its mean reward,
extrapolated by its trend, plus an exploration term. The first rule gives the guarantee; the second improves the choices
that it leaves open. Candidate bounds, if given, are tested as in Algorithm 1.

Reference: the proposition and its proof are in docs/realized-balancing.md. The rule builds on Pacchiano, Dann, Gentile
and Bartlett (2020), Algorithm 1, and balances the quantity that Pacchiano, Dann and Gentile (2023), "Data-driven online
model selection with regret guarantees", algorithms 1 and 2, estimate conservatively; the index follows Audibert and
Bubeck (2009), "Minimax policies for adversarial and stochastic bandits" (the MOSS index), in an anytime form.
Symbols: n_i plays, U_i rewards, LB best_lower, phi_i realized_regret, rho floor, u unit, kappa slack, w width,
M n_learners.

>>> selector = RealizedBalancing(2)
>>> for _ in range(100):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.9 if choice.learner else 0.1)
>>> [standing.plays for standing in selector.standing()]
[2, 98]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import Bound
from equipoise.confidence import add_spread
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors import balanced_elimination
from equipoise.selectors._core import evidence
from equipoise.selectors._core.arrivals import Arrivals, add_arrival, adopt
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.settings import (
    ConfidenceSettings,
    LearnerCount,
    check_bounds,
    decode_bounds,
    encode_bounds,
)
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive, real

MIN_UNIT = 0.05  # as a fraction of the reward width: the proof needs u > 0
EARLY_PLAYS = 100.0  # number of plays of a learner after which its exploration term decreases faster


class Params(NamedTuple):
    evidence: evidence.Params
    floor: float
    slack: float
    optimism: float


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
    """The admitted learner with the highest index; ties go to fewer plays, then to the lower position."""
    n_rounds, n_counted, spread, n_arrived, arrived_spread = 0, 0, 0.0, 0, 0.0
    accounts, width = state.evidence.accounts, params.evidence.width
    for i in range(len(accounts)):
        account = accounts[i]
        if account.active and account.plays == 0:
            return i, 1.0
        n_rounds += account.plays
        n_counted += account.booked_plays
        spread += account.spread
        n_arrived += state.trends[i].plays
        arrived_spread += state.trends[i].spread
    counted_deviation = sqrt(spread / n_counted) if n_counted > 0 else 0.0
    deviation = sqrt(arrived_spread / n_arrived) if n_arrived > 0 else 0.0
    # Twice the deviation, because that of a fair coin is half its range.
    unit = max(MIN_UNIT * width, min(width, 2.0 * counted_deviation))
    best_lower, least_regret = max(params.evidence.low, state.evidence.pool[0].best_lower), inf
    for i in range(len(accounts)):
        if accounts[i].active:
            least_regret = min(least_regret, realized_regret(params, accounts[i], best_lower, unit))
    chosen, highest, fewest_plays = -1, -inf, 0
    for i in range(len(accounts)):
        account = accounts[i]
        if account.active and realized_regret(params, account, best_lower, unit) <= params.slack * least_regret:
            index = optimistic_mean(params, account.plays, state.trends[i], n_rounds, deviation)
            if index > highest or (index == highest and account.plays < fewest_plays):
                chosen, highest, fewest_plays = i, index, account.plays
    return chosen, 1.0


@kernel
def realized_regret(params: Params, account: Account, best_lower: float, unit: float) -> float:
    """phi: the regret that the resolved plays of a learner show, and at least the size of chance fluctuations."""
    visible = account.booked_plays * best_lower - account.rewards
    return max(params.floor * unit * sqrt(account.plays), visible)


@kernel
def optimistic_mean(params: Params, plays: int, trend: Trend, n_rounds: int, deviation: float) -> float:
    """The index of a learner; before its first reward its mean counts as the highest possible reward."""
    log_share = max(0.0, log(n_rounds / plays))
    if trend.plays == 0:
        mean_reward = params.evidence.high
    else:
        mean_reward = trend.rewards / trend.plays
        # If rewards grow by h whenever plays grow e-fold, the late mean is h/2 above the mean. Half of the growth up to
        # t plays is added, because learning slows down.
        mean_reward += max(0.0, trend.late_mean - mean_reward) * log_share
    # While a learner still improves, its mean underestimates its future rewards by more than chance.
    fading = min(1.0, sqrt(sqrt(EARLY_PLAYS / plays)))
    return mean_reward + params.optimism * deviation * fading * sqrt(2.0 * log_share / plays)


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward, then eliminate every learner whose bound its rewards contradict."""
    balanced_elimination.credit(params.evidence, state.evidence, i, reward, regret, probability)


@kernel
def arrive(params: Params, state: State, i: int, reward: float, probability: float) -> None:
    """Add a reward to what the index uses."""
    trend, limits = state.trends[i], params.evidence
    middle = (limits.low + limits.high) / 2
    trend.spread = add_spread(trend.spread, trend.plays, trend.rewards, middle, reward)
    add_arrival(trend, reward)
    trend.late_mean += (reward - trend.late_mean) * 2.0 / (trend.plays + 1.0)


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
        Lowest and highest reward; with `noise`, lowest and highest expected reward. Default: as the portfolio says;
        alone (0, 1).
    contexts
        "fixed" if contexts and action sets never change, which narrows the radius; else "random".
    radius
        Form of the confidence radius: "mixture", "stitched", "paper" or "bernstein" (bounded rewards only).
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
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
    """

    name = "Realized balancing"
    rule = (
        "Among the learners whose rewards show little regret compared with the least, the one plays that has the "
        "highest mean reward, extrapolated by its trend, plus an exploration term that decreases with its plays."
    )
    separate_lower = True
    refuses_learners = ""
    reconfigurable = ("floor", "slack", "optimism")
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit, arrive=arrive)

    bounds: Sequence[Bound] | None = setting(
        default=None, check=optional(check_bounds), encode=encode_bounds, decode=decode_bounds
    )
    floor: float = setting(default=0.25, check=positive)
    slack: float = setting(default=8.0, check=check_slack)
    optimism: float = setting(default=3.5, check=positive)

    def _set_up(self) -> None:
        if self.bounds is not None and len(self.bounds) != self.n_learners:
            raise InvalidArgument(f"bounds has {len(self.bounds)} entries, but n_learners is {self.n_learners}")
        super()._set_up()

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        return tuple(self.bounds or ())

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.floor, self.slack, self.optimism)

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [Trend() for _ in accounts.accounts])

    def _grow(self) -> None:
        self.kernel_state.trends.append(Trend())

    def _adopt_evidence(self) -> None:
        adopt(self.kernel_state.trends, self.evidence.accounts)
        for trend, account in zip(self.kernel_state.trends, self.evidence.accounts, strict=True):
            trend.spread = account.spread
