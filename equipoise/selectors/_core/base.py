"""Base classes of selectors made of kernels: tickets, validation, standings, certificates, saving.

The *kernels* of a selector are small functions over arrays that see plays in order; the simulator compiles and calls
them directly. Its *ledger* turns tickets and late rewards into such calls. The base class validates and connects both.
Who may play in a round is a matter of the accounts' field `active`: for the time of a choice among some of the learners
the others are marked as inactive, so that kernels know one mark only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isnan, nan

import numpy as np

from equipoise.certificates import Elimination
from equipoise.errors import InvalidArgument, NoLearnerAvailable
from equipoise.learner import Proposal, Proposals
from equipoise.selector import Choice, SelectorTraits
from equipoise.selectors._core import evidence, nested
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.evidence import Params as EvidenceParams
from equipoise.selectors._core.evidence import State as EvidenceState
from equipoise.selectors._core.ledger import Entry, Resolved
from equipoise.selectors._core.parts import D, P, S
from equipoise.selectors._core.proofs import elimination_by_plays
from equipoise.selectors._core.proposals import check_regret, gather
from equipoise.selectors._core.reports import Reporting
from equipoise.settings.checks import count

FLOATS = (float, np.float64)


class KernelSelector(Reporting[P, S, D]):
    """A selector made of kernels, whose params and state are or contain those of `evidence`.

    Subclasses add settings from `equipoise.selectors._core.settings`.
    """

    @property
    def traits(self) -> SelectorTraits:
        """Properties of this selector for portfolios, simulations and checks."""
        return SelectorTraits(
            n_learners=self.pool_size,
            randomized=self.randomized,
            reward_range=self.reward_range,
            noise=self.confidence.noise,
            observed=self.observed,
            per_learner=self.per_learner,
            readmits=self.readmits,
            excluded=self.excluded,
            compilable=not self._custom_bounds and not self._own_radii,
        )

    def choose(self, rng: np.random.Generator | None = None, available: Collection[int] | None = None) -> Choice:
        """Choose the learner of this round, among the `available` ones if given, and open a play."""
        ledger = self._ledger
        if ledger.stale and self.balances:
            self._count_pending()
        if rng is None:
            rng = self._own_generator(self._draws)
        if available is None:
            choice = self._choose(rng)
        else:
            hidden = self._hide(available)
            try:
                choice = self._choose(rng)
            finally:
                self._show(hidden)
            if hidden and self._asks_all and self.compares_all:  # some cannot propose in this round
                choice = choice._replace(evidence=False)
        if ledger.window:
            self._expire()
        return choice

    def _choose(self, rng: np.random.Generator | None) -> Choice:
        """Choose among the active learners and open a play."""
        learner, chance = self.kernels.choose(self.params, self.kernel_state, rng)
        return Choice(learner, self._begin(learner, chance), chance)

    def choice_probabilities(self, available: Collection[int] | None = None) -> tuple[float, ...]:
        """The probability of each learner in the next choice, among the `available` ones if given."""
        if self._ledger.stale and self.balances:
            self._count_pending()
        hidden = () if available is None else self._hide(available)
        try:
            return self._chances()
        finally:
            self._show(hidden)

    def _chances(self) -> tuple[float, ...]:
        """The probability of each learner in the next choice; randomized selectors have their own."""
        chosen, _ = self.kernels.choose(self.params, self.kernel_state, None)
        return tuple(float(i == chosen) for i in range(self.pool_size))

    def _hide(self, available: Collection[int]) -> tuple[Account, ...]:
        """Mark all learners as inactive that are not available; returns the accounts that were changed."""
        allowed = self._check_available(available)
        if allowed.isdisjoint(self.active):
            raise NoLearnerAvailable(f"available is {sorted(allowed)}, but only {list(self.active)} are active")
        hidden = tuple(a for e, a in enumerate(self.evidence.accounts) if a.active and self._player(e) not in allowed)
        for account in hidden:
            account.active = False
        return hidden

    def _show(self, hidden: tuple[Account, ...]) -> None:
        for account in hidden:
            account.active = True

    def _check_available(self, available: Collection[int]) -> set[int]:
        allowed = set(available)
        for i in allowed:
            count("every entry of available", i, minimum=0, maximum=self.pool_size - 1)
        return allowed

    def replay(self, choice: Choice, available: Collection[int] | None = None) -> None:
        """Open exactly this play, as if it had just been chosen, without random numbers."""
        self._check_replay(choice, available)
        self._replay(choice, available)
        if self._ledger.window:
            self._expire()

    def _check_replay(self, choice: Choice, available: Collection[int] | None) -> None:
        if not 0 <= choice.learner < self.pool_size:
            raise InvalidArgument(f"learner is {choice.learner!r}, but must be from 0 to {self.pool_size - 1}")
        if choice.play != (play := self._ledger.next_ticket(self._accounts_of(choice.learner)[0])):
            raise InvalidArgument(f"play of learner {choice.learner} is {choice.play!r}, but its next is {play}")
        if available is not None and choice.learner not in self._check_available(available):
            raise InvalidArgument(f"learner is {choice.learner}, but must be one of available, {sorted(available)}")

    def _replay(self, choice: Choice, available: Collection[int] | None) -> None:
        self._begin(choice.learner, choice.probability)

    def _begin(self, learner: int, chance: float) -> int:
        """Open a play and return its number."""
        if learner in self._custom_bounds:  # a user's function may raise: evaluate it before the play is opened
            self._custom_bounds[learner].raw(self.evidence.accounts[learner].plays + 1)
        self._draws += 1
        self._clock = clock = self._clock + 1
        accounts, pool = self.evidence
        accounts[learner].plays += 1
        return self._ledger.open(learner, chance, clock, pool[0].eliminated)

    def tick(self, rounds: int = 1) -> tuple[D, ...]:
        """Count a round that no learner played; returns the resulting eliminations.

        The certificate adds the width of the rewards to the regret for it. A negative number takes rounds back that
        did not happen.
        """
        rounds = count("rounds", rounds, minimum=-self._unplayed_rounds)
        self._unplayed_rounds += rounds
        self._clock += max(rounds, 0)
        if self._ledger.window:
            self._expire()
        return self._report(())

    def _expire(self) -> None:
        """Leave out plays that are as old as the window and have no reward, and credit what waited for them."""
        for learner in sorted(self._ledger.expire(self._clock)):
            self._unreported += self._credit_resolved(learner, self._ledger.advance(learner))

    def _report(self, new: tuple[D, ...]) -> tuple[D, ...]:
        """New eliminations, after those that no call has returned yet."""
        if not self._unreported:
            return new
        reported = (*self._unreported, *new)
        self._unreported.clear()
        return reported

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Record the proposal of the chosen learner, or of every active learner if "actions" are needed.

        A round without evidence needs the proposal of the chosen learner only.
        """
        learner = choice.learner
        if learner not in proposals and not self._asks_all:
            raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {learner}")
        # Raises UnknownDecision if the play is not open.
        self._observe(choice, self._ledger.entry(learner, choice.play), proposals)

    def _observe(self, choice: Choice, entry: Entry, proposals: Mapping[int, Proposal]) -> None:
        learner, asks_all = entry.learner, self._asks_all
        left_out = entry.left_out or not choice.evidence
        gathered = self._gather(entry, proposals, left_out) if asks_all else None
        if learner in self.observed:
            self._ledger.observe(entry, check_regret(proposals[learner].regret))
        if asks_all:
            entry.proposals = gathered
        if left_out and not entry.left_out:
            entry.left_out = True
            self._unreported += self._credit_resolved(learner, self._ledger.advance(learner))

    def _gather(self, entry: Entry, proposals: Mapping[int, Proposal], left_out: bool) -> Proposals:
        asked = self.active if self._in_epoch(entry) and not left_out else (entry.learner,)
        return gather(proposals, asked, self.pool_size, lower="lower" in self.needs)

    def _in_epoch(self, entry: Entry) -> bool:
        """Whether no learner was eliminated since the round was chosen."""
        return entry.epoch == self.evidence.pool[0].eliminated

    def check_reward(self, reward: float) -> float:
        """The reward as a float; raises if it cannot be credited."""
        low, high = self.reward_range
        if type(reward) in FLOATS and low <= reward <= high:
            return float(reward)
        return self.traits.check_reward(reward)

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats, nan for no regret; raises what `credit` would raise and changes nothing."""
        return self._check_credit(choice, self._ledger.entry(choice.learner, choice.play), reward, regret)

    def _check_credit(self, choice: Choice, entry: Entry, reward: float, regret: float | None) -> tuple[float, float]:
        low, high = self.reward_range
        number = reward if type(reward) is float and low <= reward <= high else self.check_reward(reward)
        known = nan if regret is None else check_regret(regret)
        if entry.learner in self.observed and isnan(known) and isnan(entry.regret):
            raise InvalidArgument(
                f"regret of play {choice.play} of learner {choice.learner} is unknown, "
                "but its bound is Observed and needs it from observe() or credit()"
            )
        if self._asks_all and entry.proposals is None and not entry.left_out and choice.evidence:
            play = f"play {choice.play} of learner {choice.learner}"
            raise InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")
        return number, known

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[D, ...]:
        """Credit the reward of a play, in any order and however late; returns the resulting eliminations.

        `regret` is what the play adds to an observed bound, if it was not known before.
        """
        return self._credit(choice, self._ledger.entry(choice.learner, choice.play), reward, regret)

    def _credit(self, choice: Choice, entry: Entry, reward: float, regret: float | None) -> tuple[D, ...]:
        learner = entry.learner
        number, known = self._check_credit(choice, entry, reward, regret)
        if not choice.evidence:
            entry.left_out = True
        if self._uses_arrivals:
            self._arrive(entry, number)
        new = self._credit_resolved(learner, self._ledger.credit(entry, number, known))
        return self._report(new) if self._unreported else new

    def _arrive(self, entry: Entry, reward: float) -> None:
        """Add a reward that has arrived to what the next choice depends on, whether or not it is evidence yet."""
        self.kernels.arrive(self.params, self.kernel_state, entry.learner, reward, entry.probability)

    def withdraw(self, choice: Choice) -> tuple[D, ...]:
        """Remove an open play, as if its round had not happened; returns the resulting eliminations."""
        entry = self._ledger.entry(choice.learner, choice.play)
        account = self.evidence.accounts[choice.learner]
        if entry.round == self._clock:  # the newest round
            self._draws -= 1  # the next choice uses the same random numbers
            self._clock -= 1
        account.plays -= 1
        if not entry.queued:  # it was passed over, and its learner does not wait for it
            account.skipped -= 1
            if choice.learner in self.observed:
                width = self.reward_range[1] - self.reward_range[0]
                account.skipped_bound -= width if isnan(entry.regret) else min(entry.regret, width)
        return self._report(self._credit_resolved(choice.learner, self._ledger.withdraw(entry)))

    def _credit_resolved(self, learner: int, resolved: Resolved) -> tuple[D, ...]:
        """Pass resolved rounds and plays to the kernels; returns the new eliminations."""
        kernels, params, state = self.kernels, self.params, self.kernel_state
        rounds, plays, rewind = resolved
        accounts, custom, own = self.evidence, self._custom_bounds, learner in self._own_radii
        if own:
            params = self.params_of(learner)
        for entry in plays:
            if entry.left_out:
                self._skip(entry)
                continue
            regret = entry.regret
            if custom:
                regret = self._increment(learner, self._position(learner) + 1, regret)
            kernels.credit(params, state, learner, entry.reward, regret, entry.probability)
        if own:
            self._widen(learner)
        if rewind:
            evidence.rewind(params, accounts, learner)
        for entry in rounds:
            if entry.left_out:
                continue
            evidence.pool(params, accounts, entry.reward)
            if self._asks_all and self._in_epoch(entry):
                self._close_round(entry)
        if accounts.pool[0].eliminated == len(self._eliminations):
            return ()
        return self._record_eliminations()

    def _close_round(self, entry: Entry) -> None:
        """Pass the proposals of a resolved round to the kernels, in the order of rounds."""
        kernels, params, state = self.kernels, self.params, self.kernel_state
        kernels.close_round(params, state, entry.learner, entry.reward, entry.regret, entry.proposals)

    def _position(self, i: int) -> int:
        """Number of plays of learner i that are counted or left out for good."""
        account = self.evidence.accounts[i]
        return account.booked_plays + account.skipped

    def _skip(self, entry: Entry) -> None:
        """Pass over a play that is no evidence."""
        i = entry.learner
        increment = self._increment(i, self._position(i) + 1, nan)
        self.kernels.skip(self.params, self.kernel_state, i, increment, entry.regret)

    def _count_pending(self) -> None:
        """Include the pending plays in the balanced bounds."""
        kernels, params, state = self.kernels, self.params, self.kernel_state
        rewound, plays = self._ledger.count()
        for i in rewound:
            evidence.rewind(params, self.evidence, i)
        for offset, entry in plays:
            i = entry.learner
            position = self._position(i) + offset
            kernels.play(params, state, i, position, self._increment(i, position, entry.regret))

    def _increment(self, i: int, position: int, regret: float) -> float:
        """What play number `position` of learner i adds to its bound; kernels cannot evaluate a `Custom` bound."""
        custom = self._custom_bounds.get(i)
        if custom is None:
            return regret
        return custom.raw(position) - (custom.raw(position - 1) if position > 1 else 0.0)

    def _elimination_by_plays(self, i: int) -> Elimination:
        """The proof by which the test of Algorithm 1 eliminated learner i."""
        witness = self.evidence.accounts[i].witness
        return elimination_by_plays(self.evidence, i, self.confidence_of(i).radius, self.confidence_of(witness).radius)


class EvidenceSelector(KernelSelector[P, S, Elimination]):
    """A selector that eliminates, if any, learners whose own plays contradict their bound."""

    def _elimination(self, i: int) -> Elimination:
        return self._elimination_by_plays(i)


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
