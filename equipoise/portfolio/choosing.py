"""Choosing who plays a round: the selector chooses among the learners that can play, blind to the context.

A learner that raises an error, or proposes something that makes no sense, is skipped, and the selector chooses among
the others. The substitute was then selected by a failure that may depend on the context, so the round is no evidence
unless availability is declared independent of contexts (`Choice.evidence`). The same holds for a round that a caller
restricts to some of the learners.

If every learner rejects the context as invalid, the caller is at fault: the error is passed on and no learner counts as
failing. A learner that rejects what another one accepts counts as failing.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple

from equipoise.errors import InvalidArgument, NoLearnerAvailable
from equipoise.features import Offers
from equipoise.kernels.streams import LEARNERS, SELECTOR, Stream, seek
from equipoise.learner import Proposal
from equipoise.portfolio.contexts import seen_by
from equipoise.portfolio.members import Member, describe_error
from equipoise.portfolio.proposals import InvalidProposal, check_offered, check_proposal, n_offers
from equipoise.portfolio.snapshots import SavedPolicies
from equipoise.selector import Choice, Selector, traits_of
from equipoise.types import Context, State

SUBSTITUTES = 4 << 20  # lanes of the random streams for the choice of substitutes


class Failure(NamedTuple):
    """A learner that could not play: its index, the error, and whether the error may be the caller's."""

    learner: int
    error: Exception
    callers: bool


class Turn(NamedTuple):
    """Who plays a round, and what was proposed."""

    choice: Choice
    proposal: Proposal
    proposals: dict[int, Proposal]  # of everybody who was asked
    available: tuple[int, ...] | None  # the learners that could be chosen; None if all could
    probabilities: Sequence[float] | None  # with which they were chosen, if anybody wants to know
    failures: Sequence[Failure]


class Nobody(NamedTuple):
    """No learner could play a round, and the error that says so."""

    error: Exception
    failures: Sequence[Failure]


class Chooser:
    """Asks selector and learners."""

    independent = False  # whether availability is independent of contexts
    savable = False  # whether actions must be savable
    any_unavailable = True  # whether a learner may be suspended or paused

    def __init__(self, selector: Selector, members: list[Member], stream: Stream, policies: SavedPolicies) -> None:
        self._selector, self._members = selector, members
        self._stream, self._policies = stream, policies
        self._randomized = traits_of(selector).randomized
        self._lower = "lower" in selector.needs
        self._keeps_policies = "snapshots" in selector.needs
        self.asks_all = bool({"actions", "weight"} & selector.needs)
        self._twins = frozenset(getattr(selector, "twins", ()))  # learners whose greedy action may be played
        self._takes_available = "available" in inspect.signature(selector.choose).parameters
        self.wants_propensities = self.asks_all
        self.offers: Offers | None = None  # what the context of the round was turned into

    def turn(self, context: Context, round_: int, allowed: Collection[int] | None, *, desperate: bool) -> Turn | Nobody:
        """Let somebody play; afterwards the selector has one more open play, unless nobody could.

        `allowed` are the learners to which the caller restricts the round. If `desperate`, learners that are paused
        because of failures are tried when nobody else is left.
        """
        everybody = allowed is None and not self.any_unavailable
        usable, restricted = (None, False) if everybody else self._usable(round_, allowed)
        find = self._turn_of_all if self.asks_all else self._turn_of_one
        failures: list[Failure] = []
        turn = find(context, round_, usable, restricted, failures)
        if turn is not None:
            return turn
        if desperate:
            paused = [i for i in self._selector.active if self._is_paused(i, round_, allowed)]
            if paused:
                turn = find(context, round_, tuple(paused), restricted, failures)
        return Nobody(self._reason(failures, allowed), failures) if turn is None else turn

    def probabilities_in(self, round_: int, allowed: Collection[int] | None) -> Sequence[float] | None:
        """The probabilities of the learners in a round; None if the selector cannot tell."""
        return self.probabilities(self._usable(round_, allowed)[0])

    def _usable(self, round_: int, allowed: Collection[int] | None) -> tuple[tuple[int, ...] | None, bool]:
        """The learners that can be chosen, None if all can, and whether the caller excluded one of them."""
        members = self._members
        self.any_unavailable = any(member.suspended or member.paused_until > round_ for member in members)
        active = self._selector.active
        usable = tuple(i for i in active if members[i].is_available(round_))
        chosen = usable if allowed is None else tuple(i for i in usable if i in allowed)
        return (None if len(chosen) == len(active) else chosen), len(chosen) < len(usable)

    def _is_paused(self, i: int, round_: int, allowed: Collection[int] | None) -> bool:
        member = self._members[i]
        suspended = member.learner is None or member.suspended
        return not suspended and member.paused_until > round_ and (allowed is None or i in allowed)

    def _turn_of_one(
        self,
        context: Context,
        round_: int,
        available: tuple[int, ...] | None,
        restricted: bool,
        failures: list[Failure],
    ) -> Turn | None:
        """The chosen learner proposes; if it fails, another one is chosen. None if nobody is left."""
        n_actions, attempt = n_offers(context), 0
        before: State | None = None
        while available is None or available:
            if self._randomized:
                seek(self._stream, SUBSTITUTES + attempt if attempt else SELECTOR, round_)
            probabilities = self.probabilities(available) if self.wants_propensities else None
            choice = self._selector.choose(self._stream.generator) if available is None else self._choose(available)
            if choice is None:
                break
            i = choice.learner
            if restricted and not self.independent:
                choice = choice._replace(evidence=False)
            try:
                if choice.snapshot is None:
                    proposal = self.ask(i, context, round_, n_actions)
                else:
                    ask = partial(self.ask, i, context, round_, n_actions)
                    proposal = self._policies.play(i, choice.snapshot, self._members[i].adapted, ask)
                self._selector.observe(choice, {i: proposal})
            except Exception as error:
                self._selector.withdraw(choice)
                if self._keeps_policies and before is None:
                    before = self._selector.state()  # a substitute for a stored policy cannot be taken back
                failures.append(_failure(i, error))
                available = tuple(j for j in (self._selector.active if available is None else available) if j != i)
                restricted, attempt = True, attempt + 1
                continue
            except BaseException:
                self._selector.withdraw(choice)
                raise
            return Turn(choice, proposal, {i: proposal}, available, probabilities, failures)
        if before is not None:
            self._selector.restore(before)
        return None

    def _turn_of_all(
        self,
        context: Context,
        round_: int,
        available: tuple[int, ...] | None,
        restricted: bool,
        failures: list[Failure],
    ) -> Turn | None:
        """Everybody proposes first, and one of those who could is chosen. None if nobody could."""
        n_actions, active = n_offers(context), self._selector.active
        proposals: dict[int, Proposal] = {}
        for i in active if available is None else available:
            try:
                proposals[i] = self.ask(i, context, round_, n_actions)
            except Exception as error:
                failures.append(_failure(i, error))
                restricted = True
        if not proposals:
            return None
        available = None if len(proposals) == len(active) else tuple(proposals)
        if self._randomized:
            seek(self._stream, SELECTOR, round_)
        probabilities = self.probabilities(available) if self.wants_propensities else None
        choice = self._selector.choose(self._stream.generator) if available is None else self._choose(available)
        if choice is None:
            return None
        if restricted and not self.independent:
            choice = choice._replace(evidence=False)
        try:
            self._selector.observe(choice, proposals)
        except BaseException:
            self._selector.withdraw(choice)
            raise
        return Turn(choice, proposals[choice.learner], proposals, available, probabilities, failures)

    def _choose(self, available: tuple[int, ...]) -> Choice | None:
        """The choice of the selector among some learners; None if it finds none."""
        if not self._takes_available:
            return None
        try:
            return self._selector.choose(self._stream.generator, available=available)
        except NoLearnerAvailable:
            return None

    def probabilities(self, available: tuple[int, ...] | None) -> Sequence[float] | None:
        """The probabilities of the learners in the next choice; None if the selector cannot tell."""
        probabilities = getattr(self._selector, "choice_probabilities", None)
        if probabilities is None:
            return None
        given: Sequence[float] = probabilities() if available is None else probabilities(available)
        return given

    def ask(self, i: int, context: Context, round_: int, n_actions: int | None) -> Proposal:
        """A checked proposal of learner i."""
        member = self._members[i]
        learner = member.learner
        assert learner is not None
        if learner.randomized:
            seek(self._stream, LEARNERS + i, round_)
        seen = context if self.offers is None else seen_by(learner, context, self.offers)
        since = perf_counter()
        try:
            proposal = learner.decide(seen, self._stream.generator)
        finally:
            member.decide_times.add(perf_counter() - since)
        if self._twins and proposal.greedy is None and i in self._twins:
            raise InvalidProposal("greedy is None, but the selector may play this learner's greedy action")
        checked = check_proposal(proposal, n_actions, self._lower, self.savable)
        if isinstance(context, Offers) and context.mask is not None:
            check_offered("action", checked.action, context)
            check_offered("greedy", checked.greedy, context)
        return checked

    def _reason(self, failures: Sequence[Failure], allowed: Collection[int] | None) -> Exception:
        """The error to raise if nobody can play."""
        if failures and all(failure.callers for failure in failures):
            return failures[0].error
        reasons = [f"{self._members[i].name}: {describe_error(error)}" for i, error, _ in failures]
        if not reasons and not self._takes_available:
            reasons = ["choose() of the selector takes no available=, which is needed to choose among some learners"]
        if not reasons:
            reasons = ["all are suspended" if allowed is None else "none is active, not suspended and allowed"]
        error = NoLearnerAvailable(f"no learner can play ({'; '.join(reasons)})")
        if failures:
            error.__cause__ = failures[0].error
        return error


def _failure(i: int, error: Exception) -> Failure:
    return Failure(i, error, isinstance(error, InvalidArgument) and not isinstance(error, InvalidProposal))
