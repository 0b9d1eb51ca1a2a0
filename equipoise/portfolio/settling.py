"""Settling a round: its reward arrives, in one part or several, its deadline passes, or it is withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan

import numpy as np

from equipoise.certificates import AnyElimination
from equipoise.errors import DuplicateReward, InvalidArgument, UnknownDecision
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.ids import ID
from equipoise.portfolio.rewards import clipped, combine
from equipoise.portfolio.state import PortfolioState
from equipoise.portfolio.teaching import Failures, Lesson
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import check_credit
from equipoise.types import Outcome, Plain


class Settling(PortfolioState):
    """Settles rounds; what comes from outside was validated."""

    def _find(self, decision: Decision | ID) -> Ticket | None:
        """The open ticket of a decision; None if there is none. Raises an error if they do not match."""
        id_ = id_of(decision)
        ticket = self._open.get(id_)
        if ticket is not None and isinstance(decision, Decision) and not _matches(decision, ticket):
            raise InvalidArgument(f"decision {id_} has another learner or action than the one that was made")
        return ticket

    def _find_open(self, decision: Decision | ID) -> Ticket:
        """The open ticket of a decision; raises an error if there is none."""
        ticket = self._find(decision)
        if ticket is None:
            raise self._closed(id_of(decision))
        return ticket

    def _regret_of(self, ticket: Ticket, outcome: Outcome) -> float:
        if ticket.learner is None:
            return nan
        in_order = self._teaching.is_next(ticket)
        if in_order is None:
            in_order = len(self._open) == 1 and ticket.round == self._round
        return self._members[ticket.learner].adapted.regret_after(nan, outcome, ticket.plan, in_order)

    def _ignore_late(self, id_: ID, reward: float) -> None:
        """Ignore a reward after the deadline; raises an error if there is another reason why it has no open ticket."""
        round_ = self._round_of(id_)
        if round_ is None or round_ > self._expired_round:
            raise self._closed(id_)
        self._check_reward(reward)
        self._ignore(id_)

    def _ignore(self, id_: ID) -> None:
        self._counts.ignored += 1
        self._emit("ignored", {"id": id_, "reason": "the reward arrived after its deadline"})

    def _round_of(self, id_: ID) -> int | None:
        """The round of a decision of this portfolio, open or closed; None if it knows no such decision."""
        round_ = self._ids.round_of(id_)
        return self._callers.round_of(id_) if round_ is None else round_

    def _closed(self, id_: ID) -> UnknownDecision:
        """Why a decision has no open ticket."""
        if self._round_of(id_) is not None:
            return DuplicateReward(f"decision {id_} already has its reward, was withdrawn or is past its deadline")
        return UnknownDecision(f"decision {id_} was never made, or was made before this portfolio was saved")

    def _check_credit(self, ticket: Ticket, reward: float, regret: float | None) -> tuple[float, float]:
        """Reward and regret as floats, nan for an unknown regret; raises an error if they are invalid."""
        if ticket.choice is None or ticket.epoch != self._drift.epoch:
            return self._check_reward(reward), nan
        if self._traits.reward_range is None:
            self._check_reward(reward)
        return check_credit(self._selector, ticket.choice, reward, regret)

    def _settle(
        self,
        ticket: Ticket,
        kind: str,
        reward: float,
        regret: float,
        outcome: Outcome,
        failures: Failures | None = None,
        was_clipped: bool = False,
    ) -> None:
        """Teach the learners, credit the selector and close the decision; `failures` are those of a log."""
        ticket.reward, ticket.outcome = reward, outcome
        eliminations: Sequence[AnyElimination] = ()
        try:
            failed = self._teaching.teach(ticket, failures)
            if ticket.choice is not None and ticket.epoch == self._drift.epoch:
                known = None if isnan(regret) else regret
                eliminations = self._selector.credit(ticket.choice, reward, known) or ()
        except BaseException:
            ticket.reward, ticket.outcome = nan, None
            raise
        self._close(ticket)
        self._history.see(reward)
        if was_clipped:
            self._counts.clipped += 1
        if kind == "expired":
            self._expired_round = max(self._expired_round, ticket.round)
            self._counts.expired += 1
        if self._listeners.any:
            self._emit(kind, _settled(ticket, regret, failed, was_clipped))
        if failed or eliminations:
            self._finish(failed, eliminations)
        alarm = self._watch_reward(ticket, reward)
        if alarm is not None:
            self._answer(alarm)

    def _add_reward(self, ticket: Ticket, key: str, reward: float, outcome: Outcome) -> None:
        """Add one of several rewards; the decision stays open until its deadline."""
        ticket.rewards[key] = reward
        if outcome is not None:
            ticket.outcome = outcome
        if self._listeners.any:
            self._emit("rewarded", {"id": ticket.id, "reward": reward, "outcome": outcome, "part": key}, key=key)

    def _expire(self, limit: int | None) -> int:
        """Settle overdue decisions, the oldest first."""
        expired = 0
        while self.deadline is not None and self._open and (limit is None or expired < limit):
            oldest = next(iter(self._open.values()))
            if not self._is_overdue(oldest):
                break
            self._expire_ticket(oldest)
            expired += 1
        return expired

    def _expire_ticket(self, ticket: Ticket, failures: Failures | None = None) -> None:
        assert self.default_reward is not None
        total = combine(self.aggregate, ticket.rewards, self.default_reward)
        limits = self.reward_range if self._traits.noise is None else None
        reward = total if limits is None else clipped(total, limits)
        checked = self._check_credit(ticket, reward, self._default_regret(ticket))
        self._settle(ticket, "expired", *checked, ticket.outcome, failures, reward != total)

    def _clip(self, reward: float) -> tuple[float, bool]:
        """The reward that counts, and whether it differs from the one that arrived."""
        if not self.clip or self.reward_range is None:
            return reward, False
        inside = clipped(reward, self.reward_range)
        return inside, inside != reward

    def _default_regret(self, ticket: Ticket) -> float | None:
        """The regret of a round without an outcome, if unknown: the width of the reward range."""
        known = ticket.learner not in self._traits.observed or not isnan(ticket.regret)
        return None if known else self._width

    def _withdraw(self, ticket: Ticket, failures: Failures | None = None) -> None:
        """Take back a round; learners learn what waited for it."""
        eliminations: Sequence[AnyElimination] = ()
        if ticket.epoch != self._drift.epoch:
            pass  # the selector has forgotten the round
        elif ticket.choice is None:
            self._count_unplayed(-1)
        else:
            eliminations = self._selector.withdraw(ticket.choice) or ()
        self._counts.withdrawn += 1
        self._close(ticket)
        failed = self._teaching.withdraw(ticket, failures)
        if self._listeners.any:
            self._emit("withdrawn", {"id": ticket.id, "failed": list(map(tuple, failed))})
        self._finish(failed, eliminations)
        alarm = self._watch_reward(ticket, nan)
        if alarm is not None:
            self._answer(alarm)

    def _retry(self, failures: Failures | None) -> int:
        succeeded, failed = self._teaching.retry(failures)
        if self._listeners.any:
            self._emit("lessons_retried", {"succeeded": succeeded, "failed": list(map(tuple, failed))})
        self._finish(failed, ())
        return succeeded

    def _close(self, ticket: Ticket) -> None:
        del self._open[ticket.id]
        self._callers.close(ticket.id)


def id_of(decision: object) -> ID:
    """The id of a decision, or the id itself."""
    id_ = decision.id if isinstance(decision, Decision) else decision
    if type(id_) is str:
        return id_
    if isinstance(id_, np.integer):
        return int(id_)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise InvalidArgument(f"decision is {id_!r:.80}, but must be a Decision or its id")
    return id_


def _matches(decision: Decision, ticket: Ticket) -> bool:
    given, made = decision.action, ticket.action
    if type(given) is int and type(made) is int:
        return given == made and decision.learner == ticket.learner
    return decision.learner == ticket.learner and (callable(given) or np.array_equal(given, made))


def _settled(ticket: Ticket, regret: float, failed: Sequence[Lesson], was_clipped: bool) -> dict[str, Plain]:
    return {
        "id": ticket.id,
        "reward": ticket.reward,
        "regret": regret,
        "outcome": ticket.outcome,
        "failed": list(map(tuple, failed)),
        "clipped": was_clipped,
    }
