"""State = fold of events: how an event is folded into a portfolio.

What was decided is taken from the event: the selector opens the logged play, and no learner is asked. Learners learn
what they learned, in the order of the events; lessons that failed are not taught.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import Any

from equipoise.errors import InvalidArgument
from equipoise.learner import MinimalLearner, Proposal
from equipoise.portfolio import lifecycle
from equipoise.portfolio.deciding import Deciding
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.events import Event
from equipoise.portfolio.settling import Settling
from equipoise.portfolio.teaching import Failures
from equipoise.portfolio.tickets import Ticket, students_from
from equipoise.portfolio.warm_start import WarmStarting
from equipoise.selector import Choice, replay
from equipoise.types import Plain

VERSION = 1


class Foldable(Deciding, Settling, lifecycle.Lifecycle, WarmStarting):
    """A portfolio into which events can be folded."""

    def apply(self, event: Event, learner: MinimalLearner | None = None) -> None:
        """Fold an event into the state, as recovery from a log does; see `equipoise.portfolio.events`.

        A learner that was added and whose class is not registered must be given as `learner`, as it was then.
        """
        with self._lock:
            fold(self, event, learner)


def fold(portfolio: Foldable, event: Event, learner: MinimalLearner | None) -> None:
    """Fold an event into a portfolio; `learner` is the one that was added, if it cannot be rebuilt."""
    if event.derived:
        return
    if event.version != VERSION:
        raise InvalidArgument(f"event {event.kind!r} has version {event.version}, but this release folds {VERSION}")
    apply = FOLDS.get(event.kind)
    if apply is None:
        raise InvalidArgument(f"event has kind {event.kind!r}, but must be one of {', '.join(FOLDS)}")
    portfolio._admit(event.time)
    if learner is not None:
        portfolio.add_learner(learner, bound=lifecycle.bound_from(event.data["bound"]))
    else:
        apply(portfolio, event.data)


def _decided(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    choice = None if data["choice"] is None else Choice(*data["choice"])
    proposals = {int(j): Proposal(*proposal) for j, proposal in data["proposals"].items()}
    if choice is not None:
        replay(portfolio._selector, choice, data["available"])
        portfolio._selector.observe(choice, proposals)
        if choice.snapshot is not None:
            portfolio._policies.played(choice.learner, choice.snapshot)
    learner_probability, action_probability, propensity = data["probabilities"]
    ticket = Ticket(data["round"], choice, data["context"], data["action"])
    ticket.id, ticket.time = data["id"], portfolio._time
    ticket.regret, ticket.agreed = data["regret"], tuple(data["agreed"])
    ticket.students = students_from(data)
    if not data["fallback"]:
        ticket.action_probability, ticket.propensity = action_probability, propensity
    if choice is not None and not choice.greedy:
        ticket.plan = proposals[choice.learner].plan
    if portfolio._teaching.weighted and choice is not None:
        ticket.others = {j: proposal.action for j, proposal in proposals.items() if j != choice.learner}
    if data["digest"]:
        decision = Decision(
            data["id"],
            data["action"],
            data["learner"],
            data["name"],
            learner_probability,
            action_probability,
            propensity,
            data["action_id"],
        )
        portfolio._callers.remember(data["digest"], decision, ticket.round)
    else:
        portfolio._ids.record(data["id"])
    portfolio._counts.fallbacks += bool(data["fallback"])
    portfolio._open_ticket(ticket)
    portfolio._count_answers(tuple(proposals), data["failures"])


def _rewarded(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    ticket = portfolio._open[data["id"]]
    if "part" in data:
        portfolio._add_reward(ticket, data["part"], data["reward"], data["outcome"])
    else:
        settled = data["reward"], data.get("regret", nan), data["outcome"], _failures(data), data.get("clipped", False)
        portfolio._settle(ticket, "rewarded", *settled)


def _expired(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    portfolio._expire_ticket(portfolio._open[data["id"]], _failures(data))


def _withdrawn(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    portfolio._withdraw(portfolio._open[data["id"]], _failures(data))


def _retried(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    portfolio._retry(_failures(data))


def _failures(data: Mapping[str, Plain]) -> Failures:
    return {(learner, round_): error for learner, round_, error in data["failed"]}


def _added(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    portfolio.add_learner(lifecycle.rebuilt(data["learner"]), bound=lifecycle.bound_from(data["bound"]))


def _taught(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    i = portfolio._index(data["name"])
    portfolio._members[i].adapted.restore(data["state"])
    portfolio._set_taught(i, data["state"], data["rounds"], data["source"])


def _reconfigured(portfolio: Foldable, data: Mapping[str, Plain]) -> None:
    portfolio.reconfigure(**data["changes"])


FOLDS: dict[str, Callable[[Any, Mapping[str, Plain]], None]] = {
    "decided": _decided,
    "rewarded": _rewarded,
    "expired": _expired,
    "withdrawn": _withdrawn,
    "ignored": lambda portfolio, data: portfolio._ignore(data["id"]),
    "lessons_retried": _retried,
    "learner_added": _added,
    "learner_removed": lambda portfolio, data: portfolio.remove_learner(data["name"]),
    "learner_renamed": lambda portfolio, data: portfolio.rename_learner(data["name"], data["new"]),
    "learner_suspended": lambda portfolio, data: portfolio.suspend(data["name"]),
    "learner_resumed": lambda portfolio, data: portfolio.resume(data["name"]),
    "learner_taught": _taught,
    "rounds_replayed": lambda portfolio, data: portfolio._count_replayed(data["rounds"]),
    "config": _reconfigured,
}
