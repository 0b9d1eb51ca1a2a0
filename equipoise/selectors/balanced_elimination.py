"""Regret bound balancing with elimination.

Every learner i comes with a candidate regret bound R_i, which may be false. The selector plays the active learner whose
bound at its own number of plays is smallest, which keeps the putative regrets of all active learners about equal, and
eliminates a learner when its rewards contradict its bound. The total regret is then close to that of the best learner
whose bound holds, without knowing which learner that is.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1.
Symbols: n_i plays, U_i rewards, R_i regret_bound, I_t active, M n_learners, delta; the paper's c sqrt(n ln(M ln
n/delta)) is `radius_sum` of `equipoise.confidence`.
Departures: unplayed learners come first, by the tie rule (R_i(0) = 0 is the smallest value; ties go to fewer plays,
then to the lower index), so the balancing lemma still holds; the radius has explicit constants and holds from the first
play. A second test is ours: see `equipoise.selectors._core.same_round`.

>>> from equipoise.bounds import Power
>>> selector = BalancedElimination([Power(0.25), Power(0.5)])
>>> for _ in range(5):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.5)
>>> [standing.plays for standing in selector.standing()]
[4, 1]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import ClassVar

import numpy as np

from equipoise.bounds import Custom
from equipoise.certificates import Certificate, Elimination, Evidence, LowerEvidence, SameRoundElimination
from equipoise.certificates.radii import start_share
from equipoise.confidence import Confidence, Mixture, make_confidence, mixture, noise_variance, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core import same_round as by_round
from equipoise.selectors._core.base import KernelSelector
from equipoise.selectors._core.evidence import Params, State, comes_first
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.ledger import Entry
from equipoise.selectors._core.outlook import next_elimination
from equipoise.selectors._core.settings import CandidateBounds, ConfidenceSettings
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import boolean, count, positive


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The active learner with the smallest putative regret; ties go to fewer plays, then to the lower index."""
    chosen, least_bound, fewest_plays = -1, inf, 0
    for i in range(len(state.accounts)):
        account = state.accounts[i]
        bound, plays = account.regret_bound, account.plays
        if account.active and comes_first(bound, plays, least_bound, fewest_plays):
            chosen, least_bound, fewest_plays = i, bound, plays
    return chosen, 1.0


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward, then eliminate every learner whose bound its rewards contradict."""
    evidence.credit(params, state, i, reward, regret)
    if state.accounts[i].active:
        evidence.eliminate(state)


@kernel
def choose_inside(params: by_round.Params, state: by_round.State, rng: np.random.Generator) -> tuple[int, float]:
    return choose(params.evidence, state.evidence, rng)


@kernel
def credit_inside(
    params: by_round.Params, state: by_round.State, i: int, reward: float, regret: float, probability: float
) -> None:
    credit(params.evidence, state.evidence, i, reward, regret, probability)


PLAIN = Kernels(choose, credit)
MIN_WEIGHT = 1e-9  # of delta_weights compared with the largest: less makes a radius that proves nothing
TRUSTING = nested_kernels(choose_inside, credit=credit_inside, certify=by_round.certify)
SAME_ROUND = TRUSTING._replace(close_round=by_round.close_round)


def check_weights(name: str, weights: object) -> tuple[float, ...]:
    """Check that weights are positive numbers whose sum is finite."""
    if not isinstance(weights, Iterable):
        raise InvalidArgument(f"{name} is {weights!r}, but must have one positive number per learner")
    numbers = tuple(positive(f"every entry of {name}", weight) for weight in weights)
    if numbers and min(numbers) / max(numbers) < MIN_WEIGHT:
        raise InvalidArgument(f"{name} is {numbers!r}, but none must be less than {MIN_WEIGHT:g} times another")
    return numbers


@configurable
class BalancedElimination(
    CandidateBounds,
    ConfidenceSettings,
    KernelSelector[Params | by_round.Params, State | by_round.State, Elimination | SameRoundElimination],
):
    """Balances candidate regret bounds and eliminates learners whose rewards contradict their bound.

    Parameters
    ----------
    bounds
        One candidate regret bound per learner.
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
    delta_weights
        One positive weight per learner: the part of `delta` that it spends on its radius, as a share of their sum. A
        larger weight makes its radius narrower, and all others wider. Default: equal. Runs with it are not compiled.
    trusted
        Index of a learner whose bound is taken for true. The certificate then rests on it alone.
    same_round
        Whether a learner is also tested against the lower bounds that others report in its own rounds. Its witnesses
        are the learners after it in a nested pool or, if there is one, the trusted learner alone.
    """

    name = "Balanced elimination"
    explanation = (
        "The active learner plays whose candidate bound at its number of plays is smallest, so a learner with a "
        "larger bound plays less; one whose rewards contradict its bound is eliminated."
    )
    refuses_learners = ""
    kernels: ClassVar[Kernels] = PLAIN

    delta_weights: Sequence[float] | None = setting(default=None, check=optional(check_weights))
    trusted: int | None = setting(default=None, check=optional(partial(count, minimum=0)))
    same_round: bool = setting(default=False, check=boolean)

    def _set_up(self) -> None:
        n_learners = len(self.learner_bounds)
        if self.trusted is not None and self.trusted >= n_learners:
            raise InvalidArgument(f"trusted is {self.trusted}, but must be from 0 to {n_learners - 1}")
        if self.delta_weights is not None:
            self._check_weights(n_learners)
        if self.same_round:
            self._check_same_round()
            nested = frozenset({"nested"} if self.trusted is None else ())
            self.needs = frozenset({"bounds", "actions", "lower"}) | nested
        if self._has_params:
            # Of this object alone: with these settings it has more state.
            self.kernels = SAME_ROUND if self.same_round else TRUSTING  # type: ignore[misc]
            self.refuses_learners = "a trusted learner and the same-round test need a fixed pool"  # type: ignore[misc]
        super()._set_up()

    def _check_weights(self, n_learners: int) -> None:
        weights = self.delta_weights or ()
        if len(weights) != n_learners:
            raise InvalidArgument(
                f"delta_weights is {weights!r}, but must have one entry for each of {n_learners} learners"
            )
        refused = {
            "same_round=True": (self.same_round, "the events of the same-round test have equal shares"),
            "radius 'paper'": (self.radius == "paper", "its printed form gives every learner the same share"),
        }
        for what, (given, reason) in refused.items():
            if given:
                raise InvalidArgument(f"delta_weights is {weights!r}, but must be None with {what}: {reason}")

    def _check_same_round(self) -> None:
        custom = [bound.name for bound in self.learner_bounds if isinstance(bound, Custom)]
        if custom:
            raise InvalidArgument(
                f"same_round is True, but bound {custom[0]!r} is Custom, which the test cannot evaluate"
            )
        if self.radius == "paper":
            raise InvalidArgument(
                "same_round is True with radius 'paper', but its printed form leaves no share of delta to another test"
            )

    @property
    def _has_params(self) -> bool:
        return self.same_round or self.trusted is not None

    def _make_confidence(self, n_learners: int, delta: float | None = None) -> Confidence:
        settings = self._radius_settings(n_learners, delta, self.noise, self.radius_scale)
        return make_confidence(self.radius, extra_events=int(self.same_round), **settings)

    @property
    def _start_shares(self) -> tuple[float, ...]:
        weights = self.delta_weights or ()
        return tuple(start_share(self.delta, weights, i) for i in range(len(weights)))

    @property
    def _noise_radius(self) -> Mixture:
        """The radius of the same-round test: that of the reward noise alone."""
        low, high = self.reward_range
        return mixture(noise_variance(high - low, self.noise), self.alpha, self.radius_scale)

    def _make_params(self, limits: Params) -> Params | by_round.Params:
        if not self._has_params:
            return limits
        return by_round.Params(limits, self._noise_radius, -1 if self.trusted is None else self.trusted)

    def _make_state(self, accounts: State) -> State | by_round.State:
        return by_round.open_state(accounts) if self._has_params else accounts

    def _in_epoch(self, entry: Entry) -> bool:
        """Every round counts in the same-round test, also if a learner was eliminated since it was chosen."""
        return True

    def _elimination(self, i: int) -> Elimination | SameRoundElimination:
        state = self.kernel_state
        if not isinstance(state, by_round.State) or state.own[i].witness < 0:
            return self._elimination_by_plays(i)
        own = state.own[i]
        radius = radius_sum(self._noise_radius, own.proof_plays)
        return SameRoundElimination(
            self.evidence.accounts[i].eliminated_at,
            Evidence(i, own.proof_plays, own.proof_rewards, own.proof_bound, radius),
            LowerEvidence(own.witness, own.proof_plays, own.proof_lower_sum),
        )

    def certificate(self) -> Certificate:
        """What the rewards prove so far, and when the next elimination would come at the current means."""
        low, high = self.reward_range
        radii = [self.confidence_of(i).radius for i in range(self.pool_size)]
        spreads = [account.spread for account in self.evidence.accounts]
        outlook = next_elimination(self.standing(), self._bounds, radii, spreads, high - low)
        return replace(super().certificate(), next_elimination=outlook, presumed=self.trusted)
