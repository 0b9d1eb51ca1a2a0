"""The base class of selectors made of kernels: validates calls, and passes them to its collaborators.

- `Accounts` says which account a choice belongs to: one per learner, or one per expert.
- `Rounds` opens plays and passes rewards to the kernels; its ledger keeps late rewards.
- `Radii` has the confidence radius of every account.
- `Changes` has the learners that were added later or removed.
- `Records` makes the statements: standings, eliminations, comparisons and the certificate.
- the module `state` saves and loads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from math import isnan, nan
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np

from equipoise.bounds import BOUNDS, Bound, Custom, Observed
from equipoise.certificates import AnyElimination, Certificate, Comparison, Standing
from equipoise.certificates.proofs import Premises, late_share
from equipoise.confidence import RADII, Confidence, make_confidence
from equipoise.errors import InvalidArgument
from equipoise.kernels.records import load_state, state_records
from equipoise.kernels.streams import SELECTOR, Stream, open_stream, seek
from equipoise.learner import Proposal
from equipoise.selector import Choice, SelectorTraits
from equipoise.selectors._core import kernels as nested
from equipoise.selectors._core import state as saving
from equipoise.selectors._core.accounts import LearnerAccounts
from equipoise.selectors._core.evidence import Params as EvidenceParams
from equipoise.selectors._core.evidence import State as EvidenceState
from equipoise.selectors._core.evidence import open_state
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.ledger import Accounts, Rounds, check_regret
from equipoise.selectors._core.plays import Entry
from equipoise.selectors._core.radii import Radii
from equipoise.selectors._core.records import Records, Terms
from equipoise.selectors._core.settings import fixed
from equipoise.settings import Configured, configurable, optional, setting, settings_of
from equipoise.settings.checks import count, interval, one_of, positive, probability
from equipoise.settings.units import DEFAULT_RANGE, agreed_units, read_units, units_columns
from equipoise.types import AnyArray, Config, Later, State

P = TypeVar("P", bound=NamedTuple)
S = TypeVar("S", bound=NamedTuple)
D = TypeVar("D", bound=AnyElimination)
FLOATS = (float, np.float64)
NO_SUBSTITUTES: Mapping[int, int | None] = MappingProxyType({})
TRAITS = tuple(each.name for each in fields(SelectorTraits))


@configurable
class KernelSelector(Configured, Generic[P, S, D]):
    """A selector made of kernels, whose params and state are or contain those of `evidence`.

    An algorithm declares its kernels and further settings, says which of those below are `fixed`, and overrides the
    methods under "Parts of an algorithm" where the defaults do not fit.
    """

    name: ClassVar[str]
    rule_version: ClassVar[int] = 1  # counts changes of the probabilities with which it chooses, given the same rewards
    explanation: ClassVar[str]  # how it chooses, in one sentence
    kernels: ClassVar[Kernels]
    state_type: ClassVar[Any] = None  # of a state that has the evidence and one row for each learner; None for others
    accounts: ClassVar[type[LearnerAccounts]] = LearnerAccounts  # says which account a choice belongs to
    records: ClassVar[type[Records]] = Records  # makes the statements
    simulation_only: ClassVar[bool] = False  # whether a portfolio refuses it
    readmits: ClassVar[bool] = False  # whether an inactive learner can become active again
    balances: ClassVar[bool] = True  # whether choices depend on the bounds of pending plays
    across_epochs: ClassVar[bool] = False  # with need "actions": whether rounds chosen before an elimination count
    separate_lower: ClassVar[bool] = False  # whether lower means have a radius of their own
    units: ClassVar[tuple[str, ...]] = ("reward_range", "noise")  # settings that a portfolio can state instead
    per_learner: ClassVar[tuple[str, ...]] = ("bounds",)  # settings with one entry per learner
    refuses_learners: ClassVar[str] = "its rule is defined for a fixed number of learners"  # why none can be added
    reconfigurable: ClassVar[tuple[str, ...]] = ()  # settings that can change at any time
    restart_settings: ClassVar[Config] = {}  # which settings change when learners that have learned begin again

    delta: float = setting(
        "Failure probability of the selector's statements, in addition to the failure probabilities of the "
        "learners. Choices depend on it only if they use confidence radii.",
        probability,
        default=0.05,
    )
    reward_range: tuple[float, float] = setting(
        "Lowest and highest reward; with `noise`, lowest and highest expected reward. Default: the portfolio's, "
        "or (0, 1).",
        optional(interval),
        default=None,
    )
    contexts: str = setting(
        '"fixed" if contexts and action sets never change, which narrows the radius; else "random".',
        partial(one_of, options=("random", "fixed")),
        default="random",
    )
    radius: str = setting(
        'Form of the confidence radius: "mixture", "stitched", "paper" or "bernstein" (bounded rewards only).',
        partial(one_of, options=RADII),
        default="mixture",
    )
    noise: float | None = setting(
        "Sub-Gaussian factor of unbounded rewards. Default: the portfolio's, or none.", optional(positive), default=None
    )
    radius_scale: float = setting("Factor of the radius; below 1 no certificate is valid.", positive, default=1.0)

    needs: frozenset[str] = fixed(frozenset())
    n_learners: int = fixed(0)  # at the start; counted if it is not a setting
    bounds: Sequence[Bound] | None = fixed(None)
    classes: Sequence[Any] | None = fixed(None)
    copies: int = fixed(1)
    seed: int = fixed(0)

    _unstated: frozenset[str] = fixed(frozenset())  # units that are the portfolio's
    _adopted: Any = fixed(None)  # what the portfolio said about them, if it differs from the defaults

    def _set_up(self) -> None:
        names = {each.name for each in settings_of(type(self))}
        self._leave_units_unstated(names)
        self._width = self.reward_range[1] - self.reward_range[0]
        if "n_learners" not in names:
            self.n_learners = len(self.learner_bounds)
        self.randomized = "seed" in names
        self._stream: Stream | None = open_stream(self.seed) if self.randomized else None
        self.delays = "any"
        self._changes = saving.Changes()
        accounts = self._make_accounts()
        self.confidence = self._make_confidence(accounts.size)  # of the statements about the learners of the start
        self._radii: Radii[P] = Radii(self.confidence)
        self._renew_params()
        bounds = self.learner_bounds
        # The part of the state that every selector has, and the rows that kernels change in place.
        self.evidence: EvidenceState = open_state(bounds, accounts.size, self._width)
        for i in self.excluded:
            self.evidence.accounts[i].active = False
        self.kernel_state: S = self._make_state(self.evidence)
        kernel_parts = self.kernels, self._radii, self.kernel_state, self.evidence
        self._rounds = Rounds(*kernel_parts, bounds, accounts, across_epochs=self.across_epochs)
        self._accounts, self._asks_all = accounts, accounts.details is not None
        terms = Terms(self.delta, self.reward_range, self.contexts)
        self._records = self.records(self._rounds, self._changes, terms)

    # Parts of an algorithm

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        """The candidate bound of each learner at the start; empty if there are none.

        Learners of nested classes report their regret.
        """
        return tuple(self.bounds or ()) if self.classes is None else (Observed(),) * len(self.classes)

    @property
    def excluded(self) -> tuple[int, ...]:
        """Learners that are never played."""
        return ()

    @property
    def experts(self) -> tuple[tuple[int, bool], ...]:
        """The learners and, with True, the learners whose greedy action is drawn; empty if it draws learners only."""
        return ()

    @property
    def learning_modes(self) -> tuple[str, ...]:
        """From which rounds each learner learns; empty if that is not part of the rule."""
        return ()

    @property
    def _extra_events(self) -> int:
        """The number of statements about each learner in addition to those of its radius."""
        return 0

    def _make_accounts(self) -> Accounts:
        return self.accounts(self.n_learners, self.needs)

    def _make_confidence(self, n_accounts: int, delta: float | None = None) -> Confidence:
        """Return the confidence of accounts that share `delta`, by default that of the settings."""
        return make_confidence(
            self.radius,
            separate_lower=self.separate_lower,
            extra_events=self._extra_events,
            n_learners=n_accounts,
            delta=self.delta if delta is None else delta,
            width=self._width,
            noise=self.noise,
            contexts=self.contexts,
            scale=self.radius_scale,
        )

    def _make_params(self, limits: EvidenceParams) -> P:
        """Return the first argument of the kernels."""
        return cast(P, nested.Params(limits) if self.kernels.evidence_of is nested.evidence_of else limits)

    def _make_state(self, accounts: EvidenceState) -> S:
        """Return the initial second argument of the kernels."""
        if self.state_type is None:
            return cast(S, accounts)
        return cast(S, self.state_type(accounts, [self._make_row() for _ in accounts.accounts]))

    def _make_row(self) -> Any:
        """Return the row of a learner in a state of `state_type`."""
        return nested.Arrivals()

    def _grow(self) -> None:
        """Add the rows of a new learner to the selector's own state."""
        if self.state_type is not None:
            cast(Any, self.kernel_state)[1].append(self._make_row())

    def _chances(self) -> tuple[float, ...]:
        """Return the probability of each learner in the next choice; randomized selectors have their own."""
        chosen, _ = self.kernels.choose(self.params, self.kernel_state, None)
        return tuple(float(i == chosen) for i in range(self.pool_size))

    # What is known about the selector

    @property
    def traits(self) -> SelectorTraits:
        """Properties of this selector for portfolios, simulations and checks."""
        named = {name: getattr(self, name) for name in TRAITS}
        classes = None if self.classes is None else tuple(self.classes)
        named |= {"n_learners": self.pool_size, "noise": self.confidence.noise, "classes": classes}
        return SelectorTraits(**{**named, "restart_settings": tuple(self.restart_settings)})

    @property
    def compilable(self) -> bool:
        """Whether the kernels can be compiled with these settings."""
        return self._rounds.compilable

    def confidence_of(self, account: int) -> Confidence:
        """The confidence of the statements about an account."""
        return self._radii.confidence_of(account)

    @property
    def params(self) -> P:
        """The first argument of the kernels."""
        return self._radii.params

    @property
    def observed(self) -> tuple[int, ...]:
        """The learners whose bound is `Observed`."""
        return self._rounds.observed

    @property
    def premises(self) -> Premises:
        """The settings that proofs of its statements rest on."""
        confidence = self.confidence
        return Premises(
            delta=self.delta,
            alpha=confidence.alpha,
            n_learners=self.n_learners,
            radius=confidence.name,
            radius_scale=self.radius_scale,
            reward_range=self.reward_range,
            noise=self.noise,
            contexts=self.contexts,
            shares=confidence.shares,
            n_late=self.pool_size - self.n_learners,
        )

    @property
    def pool_size(self) -> int:
        """Number of learners, those included that were added later or have been removed."""
        return self._accounts.n_learners

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that can be chosen."""
        return self._rounds.active

    @property
    def eliminations(self) -> list[D]:
        """All eliminations so far, in order."""
        return list(self._proofs(self._rounds.eliminated))

    def _limits(self, confidence: Confidence) -> EvidenceParams:
        low, high = self.reward_range
        return EvidenceParams(confidence.radius, low, high, self._width)

    # Rounds

    def choose(self, rng: np.random.Generator | None = None, available: Collection[int] | None = None) -> Choice:
        """Choose the learner of this round, among the `available` ones if given, and open a play."""
        rounds, accounts = self._rounds, self._accounts
        rounds.expire()
        if rounds.ledger.stale and self.balances:
            rounds.count_pending()
        if rng is None and self._stream is not None:
            seek(self._stream, SELECTOR, rounds.draws)
            rng = self._stream.generator
        if available is None:
            choice = accounts.choose(rng)
        else:
            masked = rounds.mask_unavailable(available)
            try:
                choice = accounts.choose(rng)
            finally:
                rounds.unmask(masked)
            accounts.entry(choice).drawable = tuple(available)
        return choice

    def choice_probabilities(self, available: Collection[int] | None = None) -> tuple[float, ...]:
        """The probability of each learner in the next choice, among the `available` ones if given."""
        rounds = self._rounds
        if rounds.ledger.stale and self.balances:
            rounds.count_pending()
        masked = () if available is None else rounds.mask_unavailable(available)
        try:
            return self._chances()
        finally:
            rounds.unmask(masked)

    def replay(
        self, choice: Choice, available: Collection[int] | None = None, odds: Sequence[float] | None = None
    ) -> bool:
        """Open exactly this play, as if it had just been chosen, without random numbers.

        Evidence rests on the given probabilities. Selectors of experts use the `odds` of all experts as they were
        logged, and return whether their present rule has other ones.
        """
        if not 0 <= choice.learner < self.pool_size:
            raise InvalidArgument(f"learner is {choice.learner!r}, but must be from 0 to {self.pool_size - 1}")
        if choice.play != (play := self._rounds.ledger.next_ticket(self._accounts.of(choice.learner)[0])):
            raise InvalidArgument(f"play of learner {choice.learner} is {choice.play!r}, but its next is {play}")
        if available is not None and choice.learner not in self._rounds.check_available(available):
            raise InvalidArgument(f"learner is {choice.learner}, but must be one of available, {sorted(available)}")
        if not 0.0 < choice.probability <= 1.0:
            raise InvalidArgument(f"probability of choice is {choice.probability!r}, but must lie in (0, 1]")
        self._rounds.expire()
        differs = self._accounts.replay(choice, available, odds)
        if available is not None:
            self._accounts.entry(choice).drawable = tuple(available)
        return differs

    def tick(self, rounds: int = 1) -> tuple[D, ...]:
        """Count a round that no learner played; returns the resulting eliminations.

        The certificate adds the width of the rewards to the regret for it. A negative number takes rounds back that
        did not happen.
        """
        self._rounds.tick(count("rounds", rounds, minimum=-self._rounds.unplayed))
        return self._proofs(self._rounds.report(()))

    def observe(
        self, choice: Choice, proposals: Mapping[int, Proposal], substitutes: Mapping[int, int | None] = NO_SUBSTITUTES
    ) -> None:
        """Record the proposal of the drawn learner or, if "actions" are needed, of every learner that could be drawn.

        `substitutes` has the learner that acts for each one that cannot act; None for the fallback.
        """
        learner = choice.learner
        if learner not in proposals and not self._asks_all:
            raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {learner}")
        # Raises UnknownDecision if the play is not open.
        self._rounds.observe(self._accounts.entry(choice), proposals, substitutes)
        self._rounds.expire()  # not before: a round in which no learner can act is withdrawn, and changes nothing

    def leave_out(self, choice: Choice) -> None:
        """Leave an open play out of evidence for good, as events of earlier releases can say."""
        self._rounds.leave_out(self._accounts.entry(choice))

    def check_reward(self, reward: float) -> float:
        """The reward as a float; raises if it cannot be credited."""
        low, high = self.reward_range
        if type(reward) in FLOATS and low <= reward <= high:
            return float(reward)
        return SelectorTraits(reward_range=self.reward_range, noise=self.confidence.noise).check_reward(reward)

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats, nan for no regret; raises what `credit` would raise and changes nothing."""
        return self._check_credit(choice, self._accounts.seen(choice), reward, regret)

    def _check_credit(self, choice: Choice, entry: Entry, reward: float, regret: float | None) -> tuple[float, float]:
        low, high = self.reward_range
        number = reward if type(reward) is float and low <= reward <= high else self.check_reward(reward)
        known = nan if regret is None else check_regret(regret)
        if entry.account in self._rounds.observed and isnan(known) and isnan(entry.regret):
            raise InvalidArgument(
                f"regret of play {choice.play} of learner {choice.learner} is unknown, "
                "but its bound is Observed and needs it from observe() or credit()"
            )
        return number, known

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[D, ...]:
        """Credit the reward of a play, in any order and however late; returns the resulting eliminations.

        `regret` is what the play adds to an observed bound, if it was not known before.
        """
        entry = self._accounts.seen(choice)
        number, known = self._check_credit(choice, entry, reward, regret)
        self._rounds.expire()
        eliminated = self._rounds.credit(entry, number, known)
        return self._proofs(eliminated) if eliminated else ()

    def withdraw(self, choice: Choice) -> tuple[D, ...]:
        """Remove an open play, as if its round had not happened; returns the resulting eliminations."""
        return self._proofs(self._rounds.withdraw(self._accounts.entry(choice), self._width))

    def _proofs(self, eliminated: Iterable[int]) -> tuple[D, ...]:
        return tuple(cast(D, self._records.elimination(i)) for i in eliminated)

    # Statements

    def standing(self) -> list[Standing]:
        """The standing of each learner, with all its plays; nan if it has no play that counts."""
        return self._records.standing()

    def blocking(self) -> dict[int, tuple[int, int]]:
        """For each learner whose rewards wait: the first play that they wait for, and how many they are."""
        return self._records.blocking()

    def pending_bytes(self) -> int:
        """The memory of the rewarded rounds that wait behind a missing reward."""
        return self._rounds.ledger.nbytes

    def certificate(self) -> Certificate:
        """What the rewards so far prove about the optimum and the regret."""
        return self._records.certificate()

    def compare(self, learner: int, other: int) -> Comparison:
        """How much more regret per play `learner` has had than `other`, each over its own plays that count."""
        return self._records.compare(learner, other)

    def drift_evidence(self) -> dict[int, float]:
        """Return the candidate regret bounds at the plays that count."""
        accounts = enumerate(self.evidence.accounts if self._rounds.bounds else ())
        return {i: account.booked_bound for i, account in accounts if i not in self.observed}

    # Units of rewards

    def configure(
        self,
        *,
        reward_range: tuple[float, float] | None = None,
        noise: float | None = None,
        delays: str = "any",
        window: int | None = None,
    ) -> None:
        """Receive what a portfolio knows about its rewards, once, before the first play.

        Parameters
        ----------
        reward_range
            Range of the rewards; a selector that states another one refuses it.
        noise
            Sub-Gaussian factor of the rewards; a selector that states another one refuses it.
        delays
            What is promised about delays: "any" for nothing; "independent" if they say nothing about a reward given its
            context and action; "exogenous" if they are independent of contexts, rewards and learners.
        window
            With "exogenous" delays, the number of rounds after which a play without a reward is left out of evidence.
        """
        clock = self._rounds.clock
        if clock:
            raise InvalidArgument(f"configure() came after {clock} rounds, but must come before the first")
        delays = one_of("delays", delays, saving.DELAYS)
        if (delays == "exogenous") != (window is not None):
            rule = "must be given" if window is None else "must be given only with delays 'exogenous'"
            raise InvalidArgument(f"window is {window!r} with delays {delays!r}, but {rule}")
        rounds = 0 if window is None else count("window", window)
        if noise is not None and all(each.name != "noise" for each in settings_of(type(self))):
            raise InvalidArgument(f"noise is {noise!r}, but rewards of {type(self).__name__} must be bounded")
        self._adopt(reward_range, noise)
        self.delays, self._rounds.ledger.window = delays, rounds

    def states(self, name: str) -> bool:
        """Whether a range or noise is its own, not the portfolio's."""
        return name in ("reward_range", "noise") and name not in self._unstated

    def check_units(self, reward_range: tuple[float, float] | None = None, noise: float | None = None) -> None:
        """Raise what `configure` would raise, and change nothing."""
        with self._all_or_nothing(keep=False):
            self._adopt(reward_range, noise)

    def _adopt(self, reward_range: tuple[float, float] | None, noise: float | None) -> None:
        """Adopt the units of a portfolio; raise an error if they contradict those that are stated."""
        said = {
            "reward_range": optional(interval)("reward_range", reward_range),
            "noise": optional(positive)("noise", noise),
        }
        present = {"reward_range": self.reward_range, "noise": self.noise}
        adopted = agreed_units(said, present, self._unstated, self._label, "selector", InvalidArgument)
        defaults = {"reward_range": DEFAULT_RANGE, "noise": None}
        if all(adopted.get(name, defaults[name]) == present[name] for name in self._unstated):
            return
        if self._rounds.clock:
            raise InvalidArgument(
                f"{self._label} has made {self._rounds.clock} rounds in other units, but the portfolio says {adopted}"
            )
        with self._all_or_nothing():
            self._begin_in(adopted)

    @property
    def _label(self) -> str:
        return f"selector {self.name!r}"

    def _begin_in(self, adopted: Mapping[str, Any]) -> None:
        for name in self._unstated:
            setattr(self, name, adopted.get(name))
        self._adopted = dict(adopted)
        self._set_up()

    def _leave_units_unstated(self, names: Collection[str]) -> None:
        """Mark units that are None as the portfolio's; without a portfolio they have their defaults."""
        self._unstated |= {name for name in self.units if name in names and getattr(self, name) is None}
        if self.reward_range is None:
            self.reward_range = DEFAULT_RANGE if self.classes is None else self.classes[-1].reward_range

    @contextmanager
    def _all_or_nothing(self, keep: bool = True) -> Iterator[None]:
        """Undo all changes after an error, or unless `keep`. Collaborators are replaced meanwhile, never changed."""
        before, kept = dict(vars(self)), False
        try:
            yield
            kept = keep
        finally:
            if not kept:
                vars(self).clear()
                vars(self).update(before)

    # Changes while it runs

    def reconfigure(self, **changes: Any) -> None:
        """Change settings that no statement depends on; others are refused."""
        for name, value in changes.items():
            if name not in self.reconfigurable:
                allowed = ", ".join(self.reconfigurable) or "none"
                raise InvalidArgument(
                    f"{name} is {value!r}, but a running {type(self).__name__} can change only settings that no "
                    f"statement depends on: {allowed}"
                )
        self._change_settings(changes)
        self._renew_params()

    def _change_settings(self, changes: Mapping[str, Any]) -> None:
        checks = {each.name: each.metadata["check"] for each in settings_of(type(self))}
        checked = {name: checks[name](name, value) for name, value in changes.items()}
        for name, value in checked.items():
            setattr(self, name, value)

    def use_kernels(self, kernels: Kernels) -> Self:
        """Begin again with other kernels, which are not part of the settings: for variants of a rule in studies."""
        self.kernels = kernels  # type: ignore[misc]
        self._set_up()
        return self

    def _renew_params(self) -> None:
        self._radii.renew(lambda confidence: self._make_params(self._limits(confidence)))

    def add_learner(self, bound: Bound | None = None) -> int:
        """Add a learner to the pool; returns its index."""
        return self._add_learner(bound)

    def _add_learner(self, bound: Bound | None, mode: Any = None) -> int:
        if self.refuses_learners:
            raise InvalidArgument(f"{type(self).__name__} takes no more learners: {self.refuses_learners}")
        if not self._rounds.bounds:
            if bound is not None:
                raise InvalidArgument(f"bound is {bound!r}, but {type(self).__name__} was created without bounds")
        elif not isinstance(bound, tuple(BOUNDS.values())) or isinstance(bound, Custom):
            raise InvalidArgument(
                f"bound is {bound!r}, but must be one of {', '.join(name for name in BOUNDS if name != 'Custom')}"
            )
        self._join(saving.Joined(self._rounds.clock, bound, mode))
        return self.pool_size - 1

    def _join(self, joined: saving.Joined) -> None:
        """Add a learner; fail before any state changes."""
        rounds, accounts, late = self._rounds, self._accounts, self._changes.late
        i, share = self.pool_size, late_share(self.delta, len(late))
        n_new = accounts.n_accounts_of(joined.mode)
        radius = self._radius_for(share / n_new)
        late[i] = saving.Late(joined.round, share, joined.mode)
        if joined.bound is not None:
            rounds.add_bound(joined.bound, i)
        blank = accounts.add(joined.mode)
        for _ in range(n_new):
            self._radii.add(len(self.evidence.accounts), *radius)
            rounds.add_account(joined.bound, self._width)
        rounds.ledger.widen(blank)
        self._renew_params()
        self._grow()

    def _radius_for(self, share: float) -> tuple[Confidence, P]:
        """Return the radius of a learner that spends this share: that of M + 1 accounts which all spend as much."""
        confidence = self._make_confidence(self.n_learners, share * (self.n_learners + 1))
        return confidence, self._make_params(self._limits(confidence))

    def remove_learner(self, learner: int) -> None:
        """Remove a learner from the pool. It keeps its index; its open plays can still be credited."""
        i = count("learner", learner, minimum=0, maximum=self.pool_size - 1)
        if self.refuses_learners:
            raise InvalidArgument(f"{type(self).__name__} cannot remove learner {i}: {self.refuses_learners}")
        if i in self._changes.removed:
            raise InvalidArgument(f"learner is {i}, but it was removed before")
        if self.active == (i,):
            raise InvalidArgument(f"learner is {i}, but it is the only active one, and one must stay")
        self._remove(i, self._rounds.clock)

    def _remove(self, i: int, round_: int) -> None:
        for account in self._accounts.of(i):
            self.evidence.accounts[account].active = False
        self._changes.removed[i] = round_

    def restart(self, delta: float) -> None:
        """Forget all rounds and begin again with this delta and the same pool: after the law of rewards has changed.

        Open plays cannot be credited any more. Removed learners stay removed; eliminated ones are active again.
        """
        changes, bounds = self._changes, self._rounds.bounds
        delays, window = self.delays, self._rounds.ledger.window
        played = any(account.plays for account in self.evidence.accounts)
        with self._all_or_nothing():
            self._change_settings({**(self.restart_settings if played else {}), "delta": delta})
            self._begin_in(self._adopted or {})
            for i, late in changes.late.items():
                self._join(saving.Joined(0, bounds[i] if bounds else None, late.mode))
            for i in changes.removed:
                self._remove(i, 0)
            self.delays, self._rounds.ledger.window = delays, window

    # State

    def to_arrays(self) -> tuple[P, S]:
        """Params and state as arrays, for compiled code; the state is a copy."""
        self._accounts.clear()
        return self.params, state_records(self.kernel_state)

    def from_arrays(self, state: S) -> None:
        """Load a state from compiled code, in which all plays are resolved."""
        load_state(self.kernel_state, state)
        self._rounds.record_eliminations()

    def state(self) -> State:
        """The complete state, as arrays."""
        return {name: each.make() if isinstance(each, Later) else each for name, each in self.frozen().items()}

    def frozen(self) -> Config:
        """The same with `Later` values: in little time, however many rounds wait for rewards."""
        return {**saving.save(self._rounds, self._changes, self.delays), **units_columns(self._adopted or {})}

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Load what `state` returned; anything else is refused and changes nothing."""
        with self._all_or_nothing():
            self._begin_in(read_units(state, self._unstated, self._label))
            joined = saving.joined_learners(state, self._rounds)
            if joined and self.refuses_learners:
                raise InvalidArgument(f"state added has {len(joined)} learners, but {type(self).__name__} takes none")
            for each in joined:
                self._join(each)
            self.delays = saving.load(state, self._rounds, self._changes)
