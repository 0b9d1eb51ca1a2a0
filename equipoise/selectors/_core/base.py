"""Base classes of selectors made of kernels: tickets, validation, standings, certificates, saving.

The *kernels* of a selector are small functions over arrays that see plays in order; the simulator compiles and calls
them directly. Its *ledger* turns tickets and late rewards into such calls. The base class validates and connects both.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from equipoise.bounds import Bound, Custom, Observed
from equipoise.certificates import AnyElimination, Certificate, Elimination, Evidence, Standing
from equipoise.confidence import Confidence, lower_sum, radius_sum, upper_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.records import (
    check_columns,
    check_shapes,
    load_columns,
    load_state,
    state_columns,
    state_records,
)
from equipoise.learner import Proposal, Proposals
from equipoise.selector import Choice, SelectorTraits
from equipoise.selectors._core import evidence, nested
from equipoise.selectors._core.evidence import Params as EvidenceParams
from equipoise.selectors._core.evidence import State as EvidenceState
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.ledger import Entry, Ledger, Resolved
from equipoise.selectors._core.proposals import check_regret, gather
from equipoise.settings import Configured
from equipoise.types import AnyArray, State

P = TypeVar("P", bound=NamedTuple)
S = TypeVar("S", bound=NamedTuple)
D = TypeVar("D", bound=AnyElimination)


class KernelSelector(Configured, Generic[P, S, D]):
    """A selector made of kernels, whose params and state are or contain those of `evidence`.

    Subclasses add settings from `equipoise.selectors._core.settings`.
    """

    name: str
    needs: frozenset[str] = frozenset()
    kernels: ClassVar[Kernels]
    randomized: ClassVar[bool] = False  # whether `choose` uses random numbers
    readmits: ClassVar[bool] = False  # whether an inactive learner can become active again
    per_learner: ClassVar[tuple[str, ...]] = ("bounds",)  # settings with one entry per learner

    n_learners: int
    delta: float
    reward_range: tuple[float, float]

    confidence: Confidence
    params: P  # first argument of the kernels
    kernel_state: S  # second argument of the kernels: rows that they change in place
    evidence: EvidenceState  # the part of `kernel_state` that every selector has

    def _set_up(self) -> None:
        low, high = self.reward_range
        self.confidence = self._make_confidence(self.n_accounts)
        self.params = self._make_params(EvidenceParams(self.confidence.radius, low, high, high - low))
        bounds = self.learner_bounds
        self.evidence = evidence.open_state(bounds, self.n_accounts, high - low)
        self.kernel_state = self._make_state(self.evidence)
        self.observed = tuple(i for i, bound in enumerate(bounds) if isinstance(bound, Observed))
        self._custom_bounds = {i: bound for i, bound in enumerate(bounds) if isinstance(bound, Custom)}
        self._asks_all = "actions" in self.needs
        self._ledger = Ledger(self.n_accounts, keeps_proposals=self._asks_all)
        self._eliminations: list[D] = []
        self._draws = 0

    @property
    def n_accounts(self) -> int:
        """Number of accounts of plays: one per learner, unless a selector has several ways to play a learner."""
        return self.n_learners

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        """The candidate bound of each learner; empty if there are none."""
        return ()

    def _make_confidence(self, n_learners: int) -> Confidence:
        raise NotImplementedError  # abstract

    def _make_params(self, limits: EvidenceParams) -> P:
        raise NotImplementedError  # abstract

    def _make_state(self, accounts: EvidenceState) -> S:
        raise NotImplementedError  # abstract

    def _own_generator(self, draws: int) -> np.random.Generator | None:
        """The generator of the next choice if `choose` gets none; `draws` is the number of choices so far."""
        return None

    @property
    def traits(self) -> SelectorTraits:
        """Properties of this selector for portfolios, simulations and checks."""
        return SelectorTraits(
            n_learners=self.n_learners,
            randomized=self.randomized,
            reward_range=self.reward_range,
            noise=self.confidence.noise,
            observed=self.observed,
            per_learner=self.per_learner,
            readmits=self.readmits,
            excluded=self.excluded,
            compilable=not self._custom_bounds,
        )

    @property
    def excluded(self) -> tuple[int, ...]:
        """Learners that are never played."""
        return ()

    @property
    def alpha(self) -> float:
        """Failure probability of one side of one radius."""
        return self.confidence.alpha

    @property
    def shares(self) -> int:
        """Number of one-sided events for the plays of each learner and for the pool."""
        return self.confidence.shares

    @property
    def active(self) -> tuple[int, ...]:
        is_active, params, state = self.kernels.is_active, self.params, self.kernel_state
        return tuple(i for i in range(self.n_learners) if is_active(params, state, i))

    @property
    def eliminations(self) -> list[D]:
        """All eliminations so far, in order."""
        return self._eliminations

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        """Choose the learner of this round and open a play."""
        if self._ledger.stale:
            self._count_pending()
        if rng is None:
            rng = self._own_generator(self._draws)
        learner, chance = self.kernels.choose(self.params, self.kernel_state, rng)
        return Choice(learner, self._begin(learner, chance), chance)

    def replay(self, choice: Choice) -> None:
        """Open exactly this play, as if it had just been chosen, without random numbers."""
        self._check_replay(choice)
        self._begin(choice.learner, choice.probability)

    def _check_replay(self, choice: Choice) -> None:
        if not 0 <= choice.learner < self.n_learners:
            raise InvalidArgument(f"learner is {choice.learner!r}, but must be from 0 to {self.n_learners - 1}")
        if choice.play != (play := self._ledger.next_ticket(choice.learner)):
            raise InvalidArgument(f"play of learner {choice.learner} is {choice.play!r}, but its next is {play}")

    def _begin(self, learner: int, chance: float) -> int:
        """Open a play and return its number."""
        if learner in self._custom_bounds:  # a user's function may raise: evaluate it before the play is opened
            self._custom_bounds[learner].raw(self.evidence.accounts[learner].plays + 1)
        self._draws += 1
        self.kernels.open_play(self.params, self.kernel_state, learner)
        return self._ledger.open(learner, chance, self.evidence.pool[0].eliminated)

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Record the proposal of the chosen learner, or of every active learner if "actions" are needed."""
        if choice.learner not in proposals and not self._asks_all:
            raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {choice.learner}")
        entry = self._ledger.entry(choice.learner, choice.play)  # raises UnknownDecision if the play is not open
        gathered = self._gather(entry, proposals) if self._asks_all else None
        if choice.learner in self.observed:
            self._ledger.observe(entry, check_regret(proposals[choice.learner].regret))
        entry.proposals = gathered

    def _gather(self, entry: Entry, proposals: Mapping[int, Proposal]) -> Proposals:
        asked = self.active if self._in_epoch(entry) else (entry.learner,)
        return gather(proposals, asked, self.n_learners, lower="lower" in self.needs)

    def _in_epoch(self, entry: Entry) -> bool:
        """Whether no learner was eliminated since the round was chosen."""
        return entry.epoch == self.evidence.pool[0].eliminated

    def check_reward(self, reward: float) -> float:
        """The reward as a float; raises if it cannot be credited."""
        low, high = self.reward_range
        if type(reward) is float and low <= reward <= high:
            return reward
        return self.traits.check_reward(reward)

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats, nan for no regret; raises what `credit` would raise and changes nothing."""
        number = self.check_reward(reward)
        entry = self._ledger.entry(choice.learner, choice.play)
        known = nan if regret is None else check_regret(regret)
        if choice.learner in self.observed and isnan(known) and isnan(entry.regret):
            raise InvalidArgument(
                f"regret of play {choice.play} of learner {choice.learner} is unknown, "
                "but its bound is Observed and needs it from observe() or credit()"
            )
        if self._asks_all and entry.proposals is None:
            play = f"play {choice.play} of learner {choice.learner}"
            raise InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")
        return number, known

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[D, ...]:
        """Credit the reward of a play, in any order and however late; returns the resulting eliminations.

        `regret` is what the play adds to an observed bound, if it was not known before.
        """
        number, known = self.check_credit(choice, reward, regret)
        return self._credit_resolved(choice.learner, self._ledger.credit(choice.learner, choice.play, number, known))

    def withdraw(self, choice: Choice) -> tuple[D, ...]:
        """Remove an open play, as if its round had not happened; returns the resulting eliminations."""
        entry = self._ledger.entry(choice.learner, choice.play)
        if self._ledger.is_newest(entry):
            self._draws -= 1  # the next choice uses the same random numbers
        self.evidence.accounts[choice.learner].plays -= 1
        return self._credit_resolved(choice.learner, self._ledger.withdraw(entry))

    def _credit_resolved(self, learner: int, resolved: Resolved) -> tuple[D, ...]:
        """Pass resolved rounds and plays to the kernels; returns the new eliminations."""
        kernels, params, state = self.kernels, self.params, self.kernel_state
        rounds, plays, rewind = resolved
        for entry in rounds:
            kernels.pool(params, state, entry.reward)
            if self._asks_all and self._in_epoch(entry):
                self._close_round(entry)
        for entry in plays:
            regret = entry.regret
            if self._custom_bounds:
                regret = self._increment(learner, self.evidence.accounts[learner].booked_plays + 1, regret)
            kernels.credit(params, state, learner, entry.reward, regret, entry.probability)
        if rewind:
            kernels.rewind(params, state, learner)
        if self.evidence.pool[0].eliminated == len(self._eliminations):
            return ()
        return self._record_eliminations()

    def _close_round(self, entry: Entry) -> None:
        """Pass the proposals of a resolved round to the kernels, in the order of rounds."""
        kernels, params, state = self.kernels, self.params, self.kernel_state
        kernels.close_round(params, state, entry.learner, entry.reward, entry.regret, entry.proposals)

    def _count_pending(self) -> None:
        """Include the pending plays in the balanced bounds."""
        kernels, params, state = self.kernels, self.params, self.kernel_state
        rewound, plays = self._ledger.count()
        for i in rewound:
            kernels.rewind(params, state, i)
        for offset, entry in plays:
            i = entry.learner
            position = self.evidence.accounts[i].booked_plays + offset
            kernels.play(params, state, i, position, self._increment(i, position, entry.regret))

    def _increment(self, i: int, position: int, regret: float) -> float:
        """What play number `position` of learner i adds to its bound; kernels cannot evaluate a `Custom` bound."""
        custom = self._custom_bounds.get(i)
        if custom is None:
            return regret
        return custom.raw(position) - (custom.raw(position - 1) if position > 1 else 0.0)

    def standing(self) -> list[Standing]:
        """The standing of each learner; nan if it has no resolved play."""
        rows, active = [], self.active
        for i, account in enumerate(self.evidence.accounts):
            n = account.booked_plays
            rows.append(
                Standing(
                    learner=i,
                    plays=account.plays,
                    pending=account.plays - n,
                    mean_reward=account.rewards / n if n else nan,
                    mean_radius=radius_sum(self.confidence.radius, n) / n if n else nan,
                    mean_bound=account.booked_bound / n if n else nan,
                    mean_lower=account.mean_lower if n else nan,
                    mean_upper=account.mean_upper if n else nan,
                    active=i in active,
                )
            )
        return rows

    def certificate(self) -> Certificate:
        """What the rewards so far prove about the optimum and the regret."""
        lower, upper, regret_lower, regret_upper, consistent = self.kernels.certify(self.params, self.kernel_state)
        proved = []
        for account in self.evidence.accounts:
            n = account.booked_plays
            radius = radius_sum(self.confidence.radius, n) if n > 0 else 0.0
            proved.append(max(0.0, n * lower - account.rewards - radius))
        return Certificate(
            rounds=evidence.rounds_made(self.evidence),
            resolved_rounds=self.evidence.pool[0].plays,
            optimum_lower=lower,
            optimum_upper=upper,
            regret_lower=regret_lower,
            regret_upper=regret_upper,
            learner_regret_lowers=tuple(proved),
            delta=self.delta,
            learners_delta=0.0,
            consistent=consistent,
            valid=self.confidence.valid,
            assumes_bounds=bool(self.learner_bounds),
        )

    def to_arrays(self) -> tuple[P, S]:
        """Params and state as arrays, for compiled code; the state is a copy."""
        return self.params, state_records(self.kernel_state)

    def from_arrays(self, state: S) -> None:
        """Load a state from compiled code, in which all plays are resolved."""
        load_state(self.kernel_state, state)
        self._record_eliminations()

    def state(self) -> State:
        """The complete state, as arrays."""
        self._count_pending()  # so that equal histories give equal states
        ledger = {f"ledger.{name}": array for name, array in self._ledger.state().items()}
        eliminated = np.array([elimination.learner.index for elimination in self._eliminations], np.int64)
        draws = np.array([self._draws], np.int64)
        return {**state_columns(self.kernel_state), **ledger, "eliminated": eliminated, "draws": draws}

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Load what `state` returned; anything else is refused and changes nothing."""
        ledger = {name.removeprefix("ledger."): array for name, array in state.items() if name.startswith("ledger.")}
        check_columns(self.kernel_state, state)
        (eliminated_at,) = [array for name, array in state.items() if name.endswith("accounts.eliminated_at")]
        check_shapes(state, {"draws": (1,), "eliminated": (int(np.count_nonzero(eliminated_at)),)})
        self._ledger.check_state(ledger)
        load_columns(self.kernel_state, state)
        self._ledger.restore(ledger)
        self._draws = int(state["draws"][0])
        self._eliminations[:] = [self._elimination(i) for i in state["eliminated"].tolist()]

    def _record_eliminations(self) -> tuple[D, ...]:
        known = {elimination.learner.index for elimination in self._eliminations}
        rounds = {i: account.eliminated_at for i, account in enumerate(self.evidence.accounts)}
        dropped = sorted((i for i in rounds if rounds[i] > 0 and i not in known), key=rounds.__getitem__)
        new = tuple(self._elimination(i) for i in dropped)
        self._eliminations += new
        return new

    def _elimination(self, i: int) -> D:
        """The proof by which learner i was eliminated."""
        raise NotImplementedError  # abstract


class EvidenceSelector(KernelSelector[P, S, Elimination]):
    """A selector that eliminates, if any, learners whose own plays contradict their bound."""

    def _elimination(self, i: int) -> Elimination:
        account, radius = self.evidence.accounts[i], self.confidence.radius
        plays, bound = account.proof_plays, account.proof_bound
        above = upper_sum(radius, plays, account.proof_spread, bound)
        below = lower_sum(radius, account.witness_plays, account.witness_spread)
        return Elimination(
            account.eliminated_at,
            Evidence(i, plays, account.proof_rewards, bound, above, account.proof_spread),
            Evidence(
                account.witness,
                account.witness_plays,
                account.witness_rewards,
                account.witness_bound,
                below,
                account.witness_spread,
            ),
        )


class NestedSelector(EvidenceSelector[nested.Params, S]):
    """A selector that adds state, but no params, to `evidence`."""

    def _make_params(self, limits: EvidenceParams) -> nested.Params:
        return nested.Params(limits)


class PlainSelector(EvidenceSelector[EvidenceParams, EvidenceState]):
    """A selector whose params and state are those of `evidence`."""

    def _make_params(self, limits: EvidenceParams) -> EvidenceParams:
        return limits

    def _make_state(self, accounts: EvidenceState) -> EvidenceState:
        return accounts
