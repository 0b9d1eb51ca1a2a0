"""State = fold of events: what an event must hold, and how it is folded into a portfolio.

What was decided is taken from the event: the selector opens the logged play, and no learner is asked. Learners learn
what they learned, in the order of the events; lessons that failed are not taught.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import TYPE_CHECKING, Any

from equipoise.errors import InvalidArgument
from equipoise.learner import MinimalLearner, Proposal
from equipoise.portfolio import lifecycle
from equipoise.portfolio.choosing import Nobody, Turn
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.events import Event
from equipoise.portfolio.members import describe_error
from equipoise.portfolio.teaching import Failures
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import Choice, replay
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from equipoise.portfolio.portfolio import Portfolio

VERSION = 1


def failures_of(turn: Turn | Nobody | None) -> list[tuple[int, str]]:
    """The failures that count against learners: not an invalid context that nobody could use."""
    if turn is None:
        return []
    played = isinstance(turn, Turn)
    return [(i, describe_error(error)) for i, error, callers in turn.failures if played or not callers]


def decided(decision: Decision, ticket: Ticket, turn: Turn | Nobody | None, digest: str) -> Config:
    """The data of a decided round."""
    asked = turn if isinstance(turn, Turn) else None
    return {
        "id": decision.id,
        "round": ticket.round,
        "learner": decision.learner,
        "name": decision.learner_name,
        "action": ticket.action,
        "action_id": decision.action_id,
        "context": ticket.context,
        "digest": digest,
        "choice": None if ticket.choice is None else tuple(ticket.choice),
        "probabilities": (decision.learner_probability, decision.action_probability, decision.propensity),
        "proposals": {} if asked is None else {j: tuple(proposal) for j, proposal in asked.proposals.items()},
        "available": None if asked is None else asked.available,
        "regret": ticket.regret,
        "agreed": ticket.agreed,
        "failures": failures_of(turn),
        "fallback": isinstance(turn, Nobody),
    }


def apply(portfolio: Portfolio, event: Event, learner: MinimalLearner | None) -> None:
    """Fold an event into a portfolio; `learner` is the one that was added, if it cannot be rebuilt."""
    if event.derived:
        return
    if event.version != VERSION:
        raise InvalidArgument(f"event {event.kind!r} has version {event.version}, but this release folds {VERSION}")
    fold = FOLDS.get(event.kind)
    if fold is None:
        raise InvalidArgument(f"event has kind {event.kind!r}, but must be one of {', '.join(FOLDS)}")
    portfolio._admit(event.time)
    if learner is not None:
        portfolio.add_learner(learner, bound=lifecycle.bound_from(event.data["bound"]))
    else:
        fold(portfolio, event.data)


def _decided(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
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


def _rewarded(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
    ticket = portfolio._open[data["id"]]
    if "part" in data:
        portfolio._add_reward(ticket, data["part"], data["reward"], data["outcome"])
    else:
        settled = data["reward"], data.get("regret", nan), data["outcome"], _failures(data), data.get("clipped", False)
        portfolio._settle(ticket, "rewarded", *settled)


def _expired(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
    portfolio._expire_ticket(portfolio._open[data["id"]], _failures(data))


def _withdrawn(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
    portfolio._withdraw(portfolio._open[data["id"]], _failures(data))


def _retried(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
    portfolio._retry(_failures(data))


def _failures(data: Mapping[str, Plain]) -> Failures:
    return {(learner, round_): error for learner, round_, error in data["failed"]}


def _added(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
    portfolio.add_learner(lifecycle.rebuilt(data["learner"]), bound=lifecycle.bound_from(data["bound"]))


def _reconfigured(portfolio: Portfolio, data: Mapping[str, Plain]) -> None:
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
    "config": _reconfigured,
}
