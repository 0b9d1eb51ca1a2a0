"""Updates: which learners learn from a round, when, and how a failed update is kept.

The learner that acted learns; the one that was drawn, if a substitute acted for it, does not. With shared data, every
learner that accepts off-policy data learns from every round. Statements can rest on the confidence sets of learners:
of those with an `Observed` bound, and of the witnesses of a same-round test. These learners learn in the order of their
plays unless delays are declared independent of the rewards. If bad rewards arrive later than good ones, learning at
once would bias their data. All others learn at once. A selector with the capability `Updates` decides, when a round is
decided, which learners learn from it.

A learner that raises an error loses that update and nothing else: the update goes to a list of failed updates, of
bounded length, from which it can be tried again. While a learner is paused because updates have failed, its updates go
to that list without a try. A learner that refuses the context of a round of another one sits the round out, and an
event says so among the failed updates. Whether it refuses must not depend on the reward.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isnan
from time import perf_counter
from typing import NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.learner import AdaptedLearner
from equipoise.portfolio.pool import Member, Pool, describe_error, is_refusal
from equipoise.portfolio.tickets import Head, Ticket, Tickets, is_exact
from equipoise.selector import Updates
from equipoise.storage.codec import Encoded, decode_body, encode_body
from equipoise.types import Config, Context, Later

MAX_FAILED_UPDATES = 1_000
BYTES_OF_KEPT = 400  # of a rewarded decision that waits, without its encoded row
BYTES_OF_DECISION, BYTES_OF_ID = 1_400, 60  # without the context, and of the id of an action without its characters
NOT_TRIED = "not tried: the learner was paused"  # the error of an update during a pause
REFUSED = "refused: "  # begins the error of an update that the learner refused
Failures = Mapping[tuple[int, int], str]  # the errors of updates that failed according to a log, by learner and round


def size_of(context: Context) -> int:
    """Return about how many bytes an open decision in this context takes; right within a factor of two."""
    size = BYTES_OF_DECISION
    if isinstance(context, np.ndarray):
        size += context.nbytes
    elif isinstance(context, Offers):
        size += context.actions.nbytes + (0 if context.shared is None else context.shared.nbytes)
        size += sum(map(len, context.ids or ())) + BYTES_OF_ID * len(context.ids or ())
    return size


class FailedUpdate(NamedTuple):
    """An update that failed: learner, round, and the error in one line."""

    learner: int
    round: int
    error: str


def was_tried(update: FailedUpdate) -> bool:
    """Whether a learner failed to make an update, which it neither refused nor was spared."""
    return update.error != NOT_TRIED and not update.error.startswith(REFUSED)


class Kept(NamedTuple):
    """A rewarded decision that a learner still has to learn from; as bytes if it is read again as it was."""

    id: str
    ticket: Ticket | bytes

    @property
    def size(self) -> int:
        return size_of(self.ticket.context) if isinstance(self.ticket, Ticket) else BYTES_OF_KEPT + len(self.ticket)


class LearnerUpdates:
    """Updates learners, and keeps the updates that failed."""

    def __init__(
        self, pool: Pool, tickets: Tickets, *, decides: Updates | None, weighted: bool, in_order: Iterable[int]
    ) -> None:
        self._pool, self._tickets = pool, tickets
        self._members: list[Member] = pool.members
        self._decides, self.weighted = decides, weighted
        self.sharing: set[int] = set()  # learners that learn from every round
        # The learners that learn in the order of their plays, with the rounds that each still has to learn from.
        self.in_order: dict[int, deque[int]] = {i: deque() for i in in_order}
        self._n_queues: Counter[int] = Counter()  # in how many of these queues a round is
        self._kept: dict[int, Kept] = {}  # the rewarded decisions of these rounds
        self.nbytes = 0  # that they take
        self._failed: deque[tuple[FailedUpdate, Ticket]] = deque()
        self.forgotten = 0  # failed updates that were dropped because the list was full
        self.unordered: set[int] = set()  # learners that have learned from a round before an earlier one, or not at all

    def learn_in_order(self, i: int) -> None:
        self.in_order.setdefault(i, deque())

    @property
    def failed(self) -> tuple[FailedUpdate, ...]:
        return tuple(update for update, _ in self._failed)

    def waiting(self, i: int) -> tuple[Head, int] | None:
        """Return the decision that holds up updates of learner i, and how many it holds up; None if nothing does."""
        queue = self.in_order.get(i)
        if not queue or queue[0] in self._kept:
            return None
        held_up = sum(round_ in self._kept for round_ in queue)
        head = next((head for head in self._tickets.open.heads() if head.round == queue[0]), None)
        return (head, held_up) if held_up and head is not None else None

    def waiting_ids(self) -> frozenset[str]:
        """Return the ids of the closed decisions that a learner still has to learn from."""
        return frozenset([kept.id for kept in self._kept.values()] + [ticket.id for _, ticket in self._failed])

    def may_keep_bound(self, i: int) -> bool:
        """Whether the widths of a learner hold if its analysis does: it learned every reward as it was, in order."""
        return not self.weighted and i not in self.unordered

    def overtake(self, ticket: Ticket) -> None:
        """Note that a reward came before an earlier one, which its value may have caused."""
        self.unordered.update(i for i in self.learners_of(ticket) if i not in self.in_order)

    def is_next(self, ticket: Ticket) -> bool | None:
        """Whether this is the next update of its own learner; None if that learner does not learn in order."""
        queue = None if ticket.learner is None else self.in_order.get(ticket.learner)
        return None if queue is None else bool(queue) and queue[0] == ticket.round

    def learners_of(self, ticket: Ticket) -> Sequence[int]:
        """Return the learners that learn from this round."""
        if ticket.learners_to_update is not None:
            return ticket.learners_to_update
        own = () if ticket.learner is None else (ticket.learner,)
        if self.weighted:
            return sorted({*own, *ticket.others})
        return sorted(self.sharing.union(own)) if self.sharing else own

    def open(self, ticket: Ticket) -> None:
        """Queue a new round with the learners that learn in order."""
        for i in self.learners_of(ticket):
            if i in self.in_order:
                self.in_order[i].append(ticket.round)
                self._n_queues[ticket.round] += 1

    def update(self, ticket: Ticket, failures: Failures | None) -> list[FailedUpdate]:
        """Let learners learn from a round whose reward is known; return the updates that failed.

        With `failures`, exactly the updates that failed according to a log fail.
        """
        failed: list[FailedUpdate] = []
        if ticket.round in self._n_queues:
            self._keep(ticket, packed=False)
        try:
            for i in self.learners_of(ticket):
                if i in self.in_order:
                    self._advance(i, failures, failed)
                else:
                    self._update(i, ticket, failures, failed)
        except BaseException:
            self._drop(ticket.round)
            raise
        if ticket.round in self._n_queues:
            self._keep(ticket)
        return failed

    def _keep(self, ticket: Ticket, *, packed: bool = True) -> None:
        """Keep a rewarded decision that is in a queue."""
        self._drop(ticket.round)
        packed = packed and is_exact(ticket) and all(ticket is not each for _, each in self._failed)
        kept = Kept(ticket.id, encode_body(ticket.to_row()) if packed else ticket)
        self._kept[ticket.round] = kept
        self.nbytes += kept.size

    def _drop(self, round_: int) -> None:
        kept = self._kept.pop(round_, None)
        self.nbytes -= 0 if kept is None else kept.size

    def _leave_queue(self, round_: int) -> None:
        """Note that a queue does not have a round any more."""
        self._n_queues[round_] -= 1
        if not self._n_queues[round_]:
            del self._n_queues[round_]
            self._drop(round_)

    def withdraw(self, ticket: Ticket, failures: Failures | None) -> list[FailedUpdate]:
        """Forget a round that did not happen, and make the updates that waited for it."""
        failed: list[FailedUpdate] = []
        for i, queue in self.in_order.items():
            if ticket.round in queue:
                queue.remove(ticket.round)
                self._leave_queue(ticket.round)
                self._advance(i, failures, failed)
        return failed

    def retire(self, i: int) -> None:
        """Let a learner that never plays again learn from its own open rounds only."""
        self.sharing.discard(i)
        if i in self.in_order:
            own = {head.round for head in self._tickets.open.heads() if head.learner == i}
            own.update(round_ for round_, kept in self._kept.items() if _ticket(kept).learner == i)
            self._replace_queue(i, [round_ for round_ in self.in_order[i] if round_ in own])

    def _replace_queue(self, i: int, rounds: Sequence[int]) -> None:
        for round_ in set(self.in_order.get(i, ())).difference(rounds):
            self._leave_queue(round_)
        self.in_order[i] = deque(rounds)

    def remove(self, i: int) -> None:
        """Let a removed learner learn nothing more."""
        self.sharing.discard(i)
        self._replace_queue(i, ())
        self.in_order.pop(i, None)
        self._failed = deque((update, ticket) for update, ticket in self._failed if update.learner != i)

    def retry(self, failures: Failures | None) -> tuple[int, list[FailedUpdate]]:
        """Try failed updates again, the oldest first; return how many succeeded, and those that failed again."""
        updates, self._failed = list(self._failed), deque()
        failed: list[FailedUpdate] = []
        for update, ticket in updates:
            self._update(update.learner, ticket, failures, failed, paused_too=True)
        return len(updates) - len(failed), failed

    def _advance(self, i: int, failures: Failures | None, failed: list[FailedUpdate]) -> None:
        queue = self.in_order[i]
        while queue and queue[0] in self._kept:
            ticket = _ticket(kept := self._kept[queue[0]])
            self._update(i, ticket, failures, failed)
            self._leave_queue(queue.popleft())
            if ticket.round in self._n_queues and ticket is not kept.ticket:
                self._keep(ticket)

    def _update(
        self,
        i: int,
        ticket: Ticket,
        failures: Failures | None,
        failed: list[FailedUpdate],
        *,
        paused_too: bool = False,
    ) -> None:
        member = self._members[i]
        learner = member.learner
        if i in ticket.updated or learner is None:
            return
        if failures is not None and (i, ticket.round) in failures:
            self._fail(i, ticket, failures[i, ticket.round], failed)
            return
        if failures is None and not paused_too and not member.can_learn(self._tickets.round):
            self._fail(i, ticket, NOT_TRIED, failed)
            return
        since = perf_counter()
        try:
            self._call(i, learner, ticket)
        except Exception as error:
            if failures is not None:
                raise  # the log says that the learner learned this
            member.learn_times.add(perf_counter() - since)
            refused = is_refusal(error) and i != ticket.learner
            self._fail(i, ticket, f"{REFUSED if refused else ''}{describe_error(error)}", failed)
            return
        member.learn_times.add(perf_counter() - since)
        member.succeeded_learning()
        ticket.updated += (i,)

    def _fail(self, i: int, ticket: Ticket, error: str, failed: list[FailedUpdate]) -> None:
        update = FailedUpdate(i, ticket.round, error)
        failed.append(update)
        if error.startswith(REFUSED):
            self._members[i].refuses(error.removeprefix(REFUSED))
            return
        self.unordered.add(i)  # the failure may depend on the reward
        self._failed.append((update, ticket))
        if len(self._failed) > MAX_FAILED_UPDATES:
            self._failed.popleft()
            self.forgotten += 1
        if was_tried(update):
            self._pool.count_failure(i, error, self._tickets.round, deciding=False)

    def _call(self, i: int, learner: AdaptedLearner, ticket: Ticket) -> None:
        context, offers, plan = ticket.context, ticket.offers, ticket.plan
        learn: Callable[..., None] = learner.learner.learn
        outcome = ticket.action if ticket.outcome is None else ticket.outcome
        if offers is not None:
            context = learner.sees(context, offers)
        takes_probability = "probability" in learner.accepts
        if plan is None and not takes_probability and not self.weighted:
            learn(context, outcome, ticket.reward)
            return
        arguments = {"probability": self._probability(i, ticket)} if takes_probability else {}
        if plan is not None and i == ticket.learner:
            arguments["plan"] = plan
        if not self.weighted:
            learn(context, outcome, ticket.reward, **arguments)
        elif i == ticket.learner:
            learn(context, outcome, ticket.reward, ticket.weight, **arguments)
        else:
            learn(context, ticket.others[i], 0.0, 0.0, **arguments)

    def _probability(self, i: int, ticket: Ticket) -> float:
        """Return the probability of the action among the rounds that this learner learns from."""
        # Which learner acts depends on the context at most, not on what it draws, so among the rounds in which it acts
        # the action has the probability with which the learner picked it; among all rounds it has the propensity.
        shares = i in self.sharing or (self._decides is not None and i in self._decides.learners_updated_by(None))
        if not shares and not self._is_anothers(i, ticket):
            return ticket.action_probability
        if not isnan(ticket.propensity):
            return ticket.propensity
        # Some learner cannot tell its own. Given all proposals, or that the floor drew the round, it is known.
        return ticket.action_probability if ticket.choice is None else ticket.given_proposals

    def _is_anothers(self, i: int, ticket: Ticket) -> bool:
        """Whether the selector lets this learner learn from an action that it did not draw itself."""
        choice = ticket.choice
        greedy = choice is not None and choice.greedy and not ticket.substituted
        return ticket.learners_to_update is not None and (greedy or ticket.learner != i)

    def check_untouched(self, ticket: Ticket) -> None:
        """Raise an error if a learner has learned from this round."""
        if ticket.updated:
            name = self._members[min(ticket.updated)].name
            raise InvalidArgument(f"decision {ticket.id} has been learned by {name!r}, so it cannot be withdrawn")

    def frozen(self) -> Config:
        """Return the state as it is now, with the decisions made later."""
        objects = [each.ticket for each in self._kept.values() if isinstance(each.ticket, Ticket)]
        objects += [ticket for _, ticket in self._failed]
        rows, opened = (
            {ticket.round: ticket.to_row() for ticket in objects},
            self._tickets.open.frozen_of(self._n_queues),
        )
        return {
            "sharing": sorted(self.sharing),
            "tickets": Later(partial(_by_round, opened, dict(self._kept), rows)),
            "queues": [(i, list(queue)) for i, queue in sorted(self.in_order.items())],
            "failed": [tuple(update) for update, _ in self._failed],
            "forgotten": self.forgotten,
            "unordered": sorted(self.unordered),
        }

    def restore(self, state: Config, open_tickets: Iterable[Ticket]) -> None:
        """Restore a saved state; a ticket that is open too becomes one object with the open one."""
        rows = {row["round"]: row for row in state["tickets"]}
        objects = {ticket.round: ticket for ticket in open_tickets}
        failed = [FailedUpdate(*row) for row in state["failed"]]
        for update in failed:
            if update.round not in objects:
                objects[update.round] = Ticket.from_row(rows[update.round])
        self._failed = deque((update, objects[update.round]) for update in failed)
        self.sharing = set(state["sharing"])
        self.in_order = {i: deque(rounds) for i, rounds in state["queues"]}
        self._n_queues = Counter(round_ for queue in self.in_order.values() for round_ in queue)
        self._kept, self.nbytes = {}, 0
        for round_ in sorted(self._n_queues):
            if not isnan(rows[round_]["reward"]):
                self._keep(objects.get(round_) or Ticket.from_row(rows[round_]))
        self.forgotten = state["forgotten"]
        self.unordered = set(state.get("unordered", ()))  # format 1 had none


def _ticket(kept: Kept) -> Ticket:
    return kept.ticket if isinstance(kept.ticket, Ticket) else Ticket.from_row(decode_body(kept.ticket))


def _by_round(opened: Later, kept: Mapping[int, Kept], rows: Mapping[int, Config]) -> list[Config | Encoded]:
    """Return the rows of open and of kept decisions, the earliest round first; `rows` has those that are objects."""
    packed = {round_: Encoded(each.ticket) for round_, each in kept.items() if isinstance(each.ticket, bytes)}
    return [row for _, row in sorted((opened.make() | packed | rows).items())]
