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

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import ClassVar

import numpy as np

from equipoise.bounds import Bound, Custom
from equipoise.certificates import (
    AnyElimination,
    Certificate,
    Elimination,
    Evidence,
    LowerEvidence,
    SameRoundElimination,
)
from equipoise.certificates.proofs import Premises
from equipoise.confidence import Mixture, mixture, noise_variance, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core import same_round as by_round
from equipoise.selectors._core.evidence import Params, State, comes_first
from equipoise.selectors._core.kernels import HasParams, HasState, Kernels, nested_kernels
from equipoise.selectors._core.outlook import next_elimination
from equipoise.selectors._core.records import Records
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import check_bounds, decode_bounds, encode_bounds
from equipoise.settings import configurable, setting
from equipoise.settings.checks import boolean


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
def credit_inside(params: HasParams, state: HasState, i: int, reward: float, regret: float, probability: float) -> None:
    credit(params.evidence, state.evidence, i, reward, regret, probability)


PLAIN = Kernels(choose, credit)
SAME_ROUND = nested_kernels(choose_inside, credit=credit_inside, close_round=by_round.close_round)


class EliminationRecords(Records):
    """The statements of a selector that eliminates learners."""

    def elimination(self, i: int) -> AnyElimination:
        """Return the proof by which learner i was eliminated."""
        state, params = self.rounds.state, self.rounds.radii.params
        if not isinstance(state, by_round.State) or state.own[i].witness < 0:
            return super().elimination(i)
        own = state.own[i]
        radius = radius_sum(params.noise_radius, own.proof_plays)
        return SameRoundElimination(
            self.rounds.evidence.accounts[i].eliminated_at,
            Evidence(i, own.proof_plays, own.proof_rewards, own.proof_bound, radius),
            LowerEvidence(own.witness, own.proof_plays, own.proof_lower_sum),
        )

    def certificate(self) -> Certificate:
        """Return what the rewards prove so far, and when the next elimination would come at the current means."""
        accounts, radii = self.rounds.evidence.accounts, self.rounds.radii
        of_learners = [radii.confidence_of(i).radius for i in range(len(accounts))]
        spreads = [account.spread for account in accounts]
        outlook = next_elimination(self.standing(), self.rounds.bounds, of_learners, spreads, self.terms.width)
        return replace(super().certificate(), next_elimination=outlook)


@configurable
class BalancedElimination(
    KernelSelector[Params | by_round.Params, State | by_round.State, Elimination | SameRoundElimination]
):
    """Balances candidate regret bounds and eliminates learners whose rewards contradict their bound."""

    name = "Balanced elimination"
    explanation = (
        "The active learner plays whose candidate bound at its number of plays is smallest, so a learner with a "
        "larger bound plays less; one whose rewards contradict its bound is eliminated."
    )
    needs = frozenset({"bounds"})
    refuses_learners = ""
    records = EliminationRecords
    across_epochs = True  # every round counts in the same-round test, also after an elimination
    kernels: ClassVar[Kernels] = PLAIN

    bounds: Sequence[Bound] = setting(
        "One candidate bound per learner.", check_bounds, encode=encode_bounds, decode=decode_bounds, kw_only=False
    )
    same_round: bool = setting(
        "Whether a learner is also tested against the lower bounds that the learners after it in a nested pool "
        "report in its own rounds.",
        boolean,
        default=False,
    )

    @property
    def _extra_events(self) -> int:
        return int(self.same_round)

    def _set_up(self) -> None:
        if self.same_round:
            self._check_same_round()
            # Of this object alone: with this setting it has more state.
            self.needs = frozenset({"bounds", "actions", "lower", "nested"})
            self.kernels = SAME_ROUND  # type: ignore[misc]
            self.refuses_learners = "the same-round test needs a fixed pool"  # type: ignore[misc]
        super()._set_up()

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
    def premises(self) -> Premises:
        """The settings that proofs of its statements rest on."""
        return replace(super().premises, same_round=self.same_round)

    @property
    def _noise_radius(self) -> Mixture:
        """The radius of the same-round test: that of the reward noise alone."""
        low, high = self.reward_range
        return mixture(noise_variance(high - low, self.noise), self.confidence.alpha, self.radius_scale)

    def _make_params(self, limits: Params) -> Params | by_round.Params:
        return by_round.Params(limits, self._noise_radius) if self.same_round else limits

    def _make_state(self, accounts: State) -> State | by_round.State:
        return by_round.open_state(accounts) if self.same_round else accounts
