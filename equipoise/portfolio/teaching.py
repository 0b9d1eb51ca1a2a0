"""Teaching: which learners learn from a round, when, and what happens if one of them fails.

The learner that played learns. With shared data, every learner that accepts off-policy data learns from every round,
and a learner that accepts "agreed" rounds learns from those in which it proposed the same action. Learners whose bound
is `Observed` learn in the order of their plays unless delays are declared independent of the rewards: if bad rewards
arrive later than good ones, learning at once would bias the data that the bound is built on. All others learn at once.
A selector that has `taught_by` decides for itself, when a round is decided, who learns from it.

A learner that raises an error loses that lesson and nothing else: the lesson goes to a list of failed lessons, of
bounded length, from which it can be tried again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from time import perf_counter
from typing import NamedTuple

from equipoise.errors import InvalidArgument
from equipoise.learner import AdaptedLearner
from equipoise.portfolio.contexts import seen_by
from equipoise.portfolio.members import Member, describe_error
from equipoise.portfolio.tickets import Ticket
from equipoise.types import Config

MAX_FAILED_LESSONS = 1_000
Failures = Mapping[tuple[int, int], str]  # the errors of lessons that failed according to a log, by learner and round


class Lesson(NamedTuple):
    """A lesson that failed: learner, round, and the error in one line."""

    learner: int
    round: int
    error: str


class Teaching:
    """Who learns what, and the lessons that failed."""

    def __init__(self, members: list[Member], *, weighted: bool, in_order: Iterable[int]) -> None:
        self._members = members
        self.weighted = weighted
        self.sharing: set[int] = set()  # learners that learn from every round
        self.agreeing: set[int] = set()  # learners that learn from rounds in which they proposed the action
        self._queues: dict[int, deque[Ticket]] = {i: deque() for i in in_order}
        self._failed: deque[tuple[Lesson, Ticket]] = deque()
        self.forgotten = 0  # failed lessons that were dropped because the list was full

    @property
    def in_order(self) -> frozenset[int]:
        """The learners that learn in the order of their plays."""
        return frozenset(self._queues)

    def learn_in_order(self, i: int) -> None:
        self._queues.setdefault(i, deque())

    def learn_at_once(self) -> list[tuple[int, Ticket]]:
        """End teaching in order; returns what waited although its reward is known, to be taught now."""
        waiting = [(i, ticket) for i, queue in self._queues.items() for ticket in queue if not isnan(ticket.reward)]
        self._queues.clear()
        return waiting

    @property
    def failed_lessons(self) -> tuple[Lesson, ...]:
        return tuple(lesson for lesson, _ in self._failed)

    def waiting(self, i: int) -> tuple[Ticket, int] | None:
        """The ticket that holds up the lessons of learner i, and how many it holds up; None if nothing does."""
        queue = self._queues.get(i)
        if not queue or not isnan(queue[0].reward):
            return None
        held_up = sum(not isnan(ticket.reward) for ticket in queue)
        return (queue[0], held_up) if held_up else None

    def is_next(self, ticket: Ticket) -> bool | None:
        """Whether this is the next lesson of its own learner; None if that learner does not learn in order."""
        queue = None if ticket.learner is None else self._queues.get(ticket.learner)
        return None if queue is None else bool(queue) and queue[0] is ticket

    def learners_of(self, ticket: Ticket) -> Sequence[int]:
        """The learners that learn from this round."""
        choice = ticket.choice
        if choice is None:
            return sorted(self.sharing)
        if ticket.students is not None:
            return ticket.students
        own, teach = choice.learner, choice.teach
        if self.weighted:
            return sorted({own, *ticket.others})
        if not self.sharing and not ticket.agreed:
            return (own,) if teach else ()
        others = self.sharing.union(i for i in ticket.agreed if i in self.agreeing)
        return sorted(others | {own} if teach else others - {own})

    def open(self, ticket: Ticket) -> None:
        """Queue a new round with the learners that learn in order."""
        if self._queues:
            for i in self.learners_of(ticket):
                if i in self._queues:
                    self._queues[i].append(ticket)

    def teach(self, ticket: Ticket, failures: Failures | None) -> list[Lesson]:
        """Let everybody learn from a round whose reward is known; returns the lessons that failed.

        With `failures`, exactly the lessons that failed according to a log fail.
        """
        failed: list[Lesson] = []
        queues = self._queues
        for i in self.learners_of(ticket):
            if i in queues:
                self._advance(i, failures, failed)
            else:
                self._teach(i, ticket, failures, failed)
        return failed

    def withdraw(self, ticket: Ticket, failures: Failures | None) -> list[Lesson]:
        """Forget a round that did not happen, and teach what waited for it."""
        failed: list[Lesson] = []
        for i, queue in self._queues.items():
            if ticket in queue:
                queue.remove(ticket)
                self._advance(i, failures, failed)
        return failed

    def retire(self, i: int) -> None:
        """A learner that never plays again still learns from its own open rounds, but not from others'."""
        self.sharing.discard(i)
        self.agreeing.discard(i)
        if i in self._queues:
            self._queues[i] = deque(ticket for ticket in self._queues[i] if ticket.learner == i)

    def remove(self, i: int) -> None:
        """A removed learner learns nothing more."""
        self.sharing.discard(i)
        self.agreeing.discard(i)
        self._queues.pop(i, None)
        self._failed = deque((lesson, ticket) for lesson, ticket in self._failed if lesson.learner != i)

    def retry(self, failures: Failures | None) -> tuple[int, list[Lesson]]:
        """Try the failed lessons again, the oldest first; returns how many succeeded, and those that failed again."""
        lessons, self._failed = list(self._failed), deque()
        failed: list[Lesson] = []
        for lesson, ticket in lessons:
            self._teach(lesson.learner, ticket, failures, failed)
        return len(lessons) - len(failed), failed

    def _advance(self, i: int, failures: Failures | None, failed: list[Lesson]) -> None:
        queue = self._queues[i]
        while queue and not isnan(queue[0].reward):
            self._teach(i, queue[0], failures, failed)
            queue.popleft()

    def _teach(self, i: int, ticket: Ticket, failures: Failures | None, failed: list[Lesson]) -> None:
        member = self._members[i]
        learner = member.learner
        if i in ticket.taught or learner is None:
            return
        if failures is not None and (i, ticket.round) in failures:
            self._fail(i, ticket, failures[i, ticket.round], failed)
            return
        since = perf_counter()
        try:
            self._call(i, learner, ticket)
        except Exception as error:
            if failures is not None:
                raise  # the log says that the learner learned this
            member.learn_times.add(perf_counter() - since)
            self._fail(i, ticket, describe_error(error), failed)
            return
        member.learn_times.add(perf_counter() - since)
        member.succeeded_learning()
        ticket.taught += (i,)

    def _fail(self, i: int, ticket: Ticket, error: str, failed: list[Lesson]) -> None:
        lesson = Lesson(i, ticket.round, error)
        failed.append(lesson)
        self._failed.append((lesson, ticket))
        if len(self._failed) > MAX_FAILED_LESSONS:
            self._failed.popleft()
            self.forgotten += 1

    def _call(self, i: int, learner: AdaptedLearner, ticket: Ticket) -> None:
        context, offers, plan = ticket.context, ticket.offers, ticket.plan
        learn: Callable[..., None] = learner.learner.learn
        outcome = ticket.action if ticket.outcome is None else ticket.outcome
        if offers is not None:
            context = seen_by(learner, context, offers)
        takes_probability = "probability" in learner.accepts
        if plan is None and not takes_probability and not self.weighted:
            learn(context, outcome, ticket.reward)
            return
        arguments = {"probability": self._probability(i, ticket)} if takes_probability else {}
        if plan is not None and i == ticket.learner:
            arguments["plan"] = plan
        if not self.weighted:
            learn(context, outcome, ticket.reward, **arguments)
        elif ticket.choice is not None and i == ticket.choice.learner:
            learn(context, outcome, ticket.reward, 1.0 / ticket.choice.probability, **arguments)
        else:
            learn(context, ticket.others[i], 0.0, 0.0, **arguments)

    def _probability(self, i: int, ticket: Ticket) -> float:
        """The probability of the action among the rounds that this learner learns from."""
        # The choice of the learner does not depend on the context, so among its own plays the action has the
        # probability with which the learner picked it; among all rounds it has the propensity.
        return ticket.propensity if i in self.sharing or self._is_anothers(i, ticket) else ticket.action_probability

    def _is_anothers(self, i: int, ticket: Ticket) -> bool:
        """Whether the selector lets this learner learn from an action that it did not draw itself."""
        choice = ticket.choice
        return ticket.students is not None and choice is not None and (choice.greedy or choice.learner != i)

    def state(self) -> Config:
        queued = {ticket.round: ticket for queue in self._queues.values() for ticket in queue}
        failed = {ticket.round: ticket for _, ticket in self._failed}
        return {
            "sharing": sorted(self.sharing),
            "agreeing": sorted(self.agreeing),
            "tickets": [ticket.to_row() for _, ticket in sorted((queued | failed).items())],
            "queues": [(i, [ticket.round for ticket in queue]) for i, queue in sorted(self._queues.items())],
            "failed": [tuple(lesson) for lesson, _ in self._failed],
            "forgotten": self.forgotten,
        }

    def restore(self, state: Config, open_tickets: Iterable[Ticket]) -> None:
        """Restore what `state` returned; a ticket that is open too becomes one object with the open one."""
        tickets: dict[int, Ticket] = {row["round"]: Ticket.from_row(row) for row in state["tickets"]}
        tickets |= {ticket.round: ticket for ticket in open_tickets}
        self.sharing, self.agreeing = set(state["sharing"]), set(state["agreeing"])
        self._queues = {i: deque(tickets[round_] for round_ in rounds) for i, rounds in state["queues"]}
        self._failed = deque((Lesson(*row), tickets[row[1]]) for row in state["failed"])
        self.forgotten = state["forgotten"]


def check_no_lesson(ticket: Ticket, members: Sequence[Member]) -> None:
    """Raise an error if a learner has learned from this round."""
    if ticket.taught:
        name = members[min(ticket.taught)].name
        raise InvalidArgument(f"decision {ticket.id} has been learned by {name!r}, so it cannot be withdrawn")
