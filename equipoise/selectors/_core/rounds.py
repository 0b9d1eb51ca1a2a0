"""What happens in the rounds of a selector: accounts open plays, and resolved plays go to the kernels in order.

`Rounds` passes what the ledger says is complete to the *kernels*, small functions over arrays that see plays in order;
the simulator compiles and calls them directly. The *accounts* say which account a choice belongs to. An account is
active if its learner can be chosen. During a choice among some of the learners, the accounts of all others are marked
as inactive, so kernels need one mark only. Learners keep their index: a learner that is removed keeps its row and what
it has proved about the optimum.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isnan, nan
from typing import Any, NamedTuple, Protocol

import numpy as np

from equipoise.bounds import Bound, Custom, Observed
from equipoise.errors import NoLearnerAvailable
from equipoise.learner import Proposal
from equipoise.selector import Choice
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.kernels import Kernels, is_active
from equipoise.selectors._core.ledger import Details, Entry, Ledger, Resolved, Substitutes
from equipoise.selectors._core.radii import Radii
from equipoise.settings.checks import count, non_negative
from equipoise.types import State

COUNTED_EVERY = 1_024  # draws, at the latest; selectors that balance count the pending plays before every draw


class Accounts(Protocol):
    """Which accounts learners have, how a choice opens a play, and what is kept of its round.

    `LearnerAccounts` has one account for each learner. A selector that draws other things than learners plugs in its
    own.
    """

    _rounds: Rounds
    n_learners: int  # those included that were added later or removed
    details: Details | None  # the form of what is kept of a round; None if the selector asks only the chosen learner
    mode_fields: tuple[str, ...]  # of the mode in which a learner that is added later plays; empty if there is one mode

    @property
    def size(self) -> int: ...  # number of accounts

    def attach(self, rounds: Rounds) -> None:
        """Called once, when the rounds exist."""
        self._rounds = rounds

    def of(self, learner: int) -> Sequence[int]: ...  # its accounts, the one of its own proposals first

    def learner_of(self, account: int) -> int: ...

    def choose(self, rng: np.random.Generator | None) -> Choice: ...  # among the active accounts; opens a play

    def replay(self, choice: Choice, available: Collection[int] | None, odds: Sequence[float] | None) -> bool:
        """Open a play with logged `odds`, if it has any; return whether the present rule has other ones."""
        ...

    def entry(self, choice: Choice) -> Entry: ...  # an open play

    def seen(self, choice: Choice) -> Entry: ...  # an open play whose proposals are known, if they are needed

    # Returns the details to keep. `substitutes` has the learner that acts for each one that cannot; None: the fallback.
    def gather(self, entry: Entry, proposals: Mapping[int, Proposal], substitutes: Substitutes) -> Any: ...

    def arrive(self, entry: Entry, reward: float) -> None: ...  # a reward, in order of arrival, evidence or not

    def close_round(self, entry: Entry) -> None: ...  # a resolved round, in the order of rounds

    def n_accounts_of(self, mode: Any) -> int: ...  # of a learner that is added in this mode

    def add(self, mode: Any) -> Any: ...  # a learner; returns the blank details of its accounts

    def mode_of(self, row: Sequence[int]) -> Any:
        """Return a mode from its saved fields."""
        return None

    def check_saved(self, ledger: State) -> None:
        """Raise an error if saved details are impossible."""
        return

    def withdrawn(self, entry: Entry) -> None:
        """Take back what opening a play has changed."""
        return

    def clear(self) -> None:
        """Forget the round that kernels worked on last, which is not part of the state."""
        return


class Rounds:
    """The rounds so far: those that are open, and those that kernels know."""

    def __init__(
        self,
        kernels: Kernels,
        radii: Radii[Any],
        state: Any,
        sums: evidence.State,
        bounds: Sequence[Bound],
        accounts: Accounts,
        *,
        across_epochs: bool,
    ) -> None:
        self.kernels, self.radii, self.state, self.evidence, self.accounts = kernels, radii, state, sums, accounts
        self.bounds = list(bounds)  # candidate bounds of all learners; empty if there are none
        self.observed = tuple(i for i, bound in enumerate(bounds) if isinstance(bound, Observed))
        self._custom = {i: bound for i, bound in enumerate(bounds) if isinstance(bound, Custom)}
        self._asks_all, self._across_epochs = accounts.details is not None, across_epochs
        self._has_plain_marks = kernels.is_active in (evidence.is_active, is_active)
        self._uses_arrivals = kernels.arrive is not evidence.ignore_arrival
        self.ledger = Ledger(accounts.size, accounts.details, self.observed)
        self.draws = 0  # choices made
        self.clock = 0  # rounds so far, those that no learner played included
        self.unplayed = 0  # rounds that no learner played
        self.eliminated: list[int] = []  # in order
        self.unreported: list[int] = []  # of these, the ones that no call has returned yet
        accounts.attach(self)

    @property
    def compilable(self) -> bool:
        """Whether compiled kernels can run: no bound is a Python function, and all radii are equal."""
        return not self._custom and not self.radii.unequal

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that can be chosen."""
        accounts, rows = self.accounts, self.evidence.accounts
        if self._has_plain_marks:
            return tuple([i for i in range(accounts.n_learners) if rows[accounts.of(i)[0]].active])
        admits, params, state = self.kernels.is_active, self.radii.params, self.state
        return tuple([i for i in range(accounts.n_learners) if admits(params, state, accounts.of(i)[0])])

    def mask_unavailable(self, available: Collection[int]) -> tuple[Account, ...]:
        """Mark all accounts as inactive whose learner is not available; return the accounts that were changed."""
        allowed = self.check_available(available)
        if allowed.isdisjoint(self.active):
            raise NoLearnerAvailable(f"available is {sorted(allowed)}, but only {list(self.active)} are active")
        learner_of = self.accounts.learner_of
        masked = [a for e, a in enumerate(self.evidence.accounts) if a.active and learner_of(e) not in allowed]
        for account in masked:
            account.active = False
        return tuple(masked)

    def unmask(self, masked: tuple[Account, ...]) -> None:
        """Mark accounts as active again."""
        for account in masked:
            account.active = True

    def check_available(self, available: Collection[int]) -> set[int]:
        allowed = set(available)
        for i in allowed:
            count("every entry of available", i, minimum=0, maximum=self.accounts.n_learners - 1)
        return allowed

    def open(self, account: int, chance: float) -> int:
        """Open a play of an account and return its number."""
        if account in self._custom:  # a user's function may raise: evaluate it before the play is opened
            self._custom[account].raw(self.evidence.accounts[account].plays + 1)
        if not self.draws % COUNTED_EVERY and self.ledger.stale:  # so that a snapshot finds few to count
            self.count_pending()
        self.draws += 1
        self.clock = clock = self.clock + 1
        accounts, pool = self.evidence
        accounts[account].plays += 1
        return self.ledger.open(account, chance, clock, pool[0].eliminated)

    def add_account(self, bound: Bound | None, width: float) -> None:
        """Open an account for a learner that is added."""
        self.evidence.accounts.append(evidence.open_state([] if bound is None else [bound], 1, width).accounts[0])
        self.ledger.add_account(isinstance(bound, Observed))

    def add_bound(self, bound: Bound, learner: int) -> None:
        """Add the candidate bound of a new learner."""
        self.bounds.append(bound)
        if isinstance(bound, Observed):
            self.observed = (*self.observed, learner)

    def tick(self, rounds: int) -> None:
        """Count rounds that no learner played."""
        self.unplayed += rounds
        self.clock += max(rounds, 0)
        self.expire()

    def expire(self) -> None:
        """With a window: leave out plays of that age without a reward, and credit what waited for them."""
        if self.ledger.window:
            for account in sorted(self.ledger.expire(self.clock)):
                self.unreported += self._settle(account, self.ledger.advance(account))

    def report(self, new: tuple[int, ...]) -> tuple[int, ...]:
        """Return new eliminations, after those that no call has returned yet."""
        if not self.unreported:
            return new
        reported = (*self.unreported, *new)
        self.unreported.clear()
        return reported

    def in_epoch(self, entry: Entry) -> bool:
        """Whether no learner was eliminated since the round was chosen, if the test of proposals depends on it."""
        return self._across_epochs or entry.epoch == self.evidence.pool[0].eliminated

    def observe(self, entry: Entry, proposals: Mapping[int, Proposal], substitutes: Substitutes) -> None:
        """Record the proposals of a round."""
        account = entry.account
        details = self.accounts.gather(entry, proposals, substitutes) if self._asks_all else None
        if account in self.observed:
            self.ledger.observe(entry, check_regret(proposals[account].regret))
        if self._asks_all:
            entry.details = details
        entry.observed = True

    def leave_out(self, entry: Entry) -> None:
        """Leave an open play out of evidence for good."""
        entry.left_out = True
        self.unreported += self._settle(entry.account, self.ledger.advance(entry.account))

    def credit(self, entry: Entry, reward: float, regret: float) -> tuple[int, ...]:
        """Record the reward of an open play; return the accounts that are eliminated."""
        if self._uses_arrivals:
            self.accounts.arrive(entry, reward)
        new = self._settle(entry.account, self.ledger.credit(entry, reward, regret))
        return self.report(new) if self.unreported else new

    def withdraw(self, entry: Entry, width: float) -> tuple[int, ...]:
        """Remove an open play, as if its round had not happened; return the accounts that are eliminated."""
        self.accounts.withdrawn(entry)
        account = self.evidence.accounts[entry.account]
        if entry.round == self.clock:  # the newest round
            self.draws -= 1  # the next choice uses the same random numbers
            self.clock -= 1
        account.plays -= 1
        if not entry.queued:  # it was passed over, and its learner does not wait for it
            account.skipped -= 1
            if entry.account in self.observed:
                account.skipped_bound -= width if isnan(entry.regret) else min(entry.regret, width)
        new = self._settle(entry.account, self.ledger.withdraw(entry))
        self.ledger.share_tickets(entry.account, self.accounts.of(self.accounts.learner_of(entry.account)))
        return self.report(new)

    def _settle(self, e: int, resolved: Resolved) -> tuple[int, ...]:
        """Pass resolved rounds and plays of account e to the kernels; return the accounts that are eliminated."""
        kernels, params, state, sums = self.kernels, self.radii.params, self.state, self.evidence
        rounds, plays, rewind = resolved
        custom, own = self._custom, self.radii.has_own(e)
        if own:
            params = self.radii.params_of(e)
        for entry in plays:
            if entry.left_out:
                self._skip(entry)
                continue
            regret = entry.regret
            if custom:
                regret = self._increment(e, self._position(e) + 1, regret)
            kernels.credit(params, state, e, entry.reward, regret, entry.probability)
        if own:
            account = sums.accounts[e]
            account.extra_radius = self.radii.extra(e, account.booked_plays)
        if rewind:
            evidence.rewind(params, sums, e)
        for entry in rounds:
            if entry.left_out:
                continue
            evidence.pool(params, sums, entry.reward)
            if self._asks_all and self.in_epoch(entry):
                self.accounts.close_round(entry)
        if sums.pool[0].eliminated == len(self.eliminated):
            return ()
        return self.record_eliminations()

    def record_eliminations(self) -> tuple[int, ...]:
        """Record the accounts that kernels have eliminated, in order; return the new ones."""
        rounds = {e: account.eliminated_at for e, account in enumerate(self.evidence.accounts)}
        new = sorted((e for e in rounds if rounds[e] > 0 and e not in self.eliminated), key=rounds.__getitem__)
        for e in new:  # kernels do not know rounds that no learner played
            self.evidence.accounts[e].eliminated_at += self.unplayed
        self.eliminated += new
        return tuple(new)

    def _position(self, e: int) -> int:
        """Return the number of plays of account e that are counted or left out for good."""
        account = self.evidence.accounts[e]
        return account.booked_plays + account.skipped

    def _skip(self, entry: Entry) -> None:
        """Pass over a play that is left out."""
        e = entry.account
        increment = self._increment(e, self._position(e) + 1, nan)
        limits, sums = self.kernels.evidence_of(self.radii.params, self.state)
        evidence.skip(limits, sums, e, increment, entry.regret)

    def count_pending(self) -> None:
        """Include the pending plays in the balanced bounds."""
        limits, sums = self.kernels.evidence_of(self.radii.params, self.state)
        rewound, plays = self.ledger.count()
        for e in rewound:
            evidence.rewind(limits, sums, e)
        for e, offset, regret in plays:
            position = self._position(e) + offset
            evidence.play(limits, sums, e, position, self._increment(e, position, regret))

    def _increment(self, e: int, position: int, regret: float) -> float:
        """Return what play number `position` adds to a bound; kernels cannot evaluate a `Custom` bound."""
        custom = self._custom.get(e)
        if custom is None:
            return regret
        return custom.raw(position) - (custom.raw(position - 1) if position > 1 else 0.0)


def check_regret(regret: float) -> float:
    # nan, which means unknown, is the only value that differs from itself.
    return nan if regret != regret else non_negative("regret", regret)


class Late(NamedTuple):
    """A learner that was added later."""

    round: int  # number of rounds before it was added
    delta: float  # its share
    mode: Any = None  # how it plays and learns, if the selector has several modes


class Changes:
    """How the pool of a selector has changed since the start."""

    def __init__(self) -> None:
        self.late: dict[int, Late] = {}  # learners that were added
        self.removed: dict[int, int] = {}  # learners that were removed, with the number of rounds before

    def __bool__(self) -> bool:
        return bool(self.late or self.removed)

    @property
    def since(self) -> int:
        """The number of rounds before the last change."""
        return max([late.round for late in self.late.values()] + list(self.removed.values()))

    @property
    def delta(self) -> float:
        """What the statements about the learners that were added spend, in addition to delta."""
        return sum(late.delta for late in self.late.values())
