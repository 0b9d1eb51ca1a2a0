"""Folding: how each kind of event of a log changes a portfolio and its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from equipoise.bounds import Bound, from_json
from equipoise.errors import InvalidArgument
from equipoise.learner import AdaptedLearner, MinimalLearner, Proposal
from equipoise.portfolio import deferring, old_forms
from equipoise.portfolio.events import VERSION, Event
from equipoise.portfolio.rounds import note_given_proposals, observe
from equipoise.portfolio.state import PortfolioState, logged_failures
from equipoise.portfolio.tickets import Decision, Ticket, optional_tuple
from equipoise.portfolio.units import unit_key
from equipoise.selector import Choice, LeavesOut, require
from equipoise.storage.parts import rebuild_learners
from equipoise.types import Config, Plain


def apply(portfolio: Any, state: PortfolioState, event: Event, learner: MinimalLearner | None) -> None:
    """Fold an event; `learner` is the one that was added, if its class is not registered."""
    if event.derived:
        state.events.note(event)
        return
    if event.version != VERSION:
        event.check_foldable()
    fold = FOLDS.get(event.kind)
    if fold is None:
        raise InvalidArgument(f"event has kind {event.kind!r}, but must be one of {', '.join(FOLDS)}")
    before = state.tickets.time
    state.admit(event.time)
    listeners = state.events.listeners
    logged, listeners.logs = listeners.logs, False  # it is not news
    try:
        if learner is None:
            fold(portfolio, state, event.data)
        else:
            portfolio.add_learner(learner, bound=bound_from(event.data["bound"]))
    except BaseException:
        state.tickets.time = before
        raise
    finally:
        listeners.logs = logged


def bound_from(row: Config | None) -> Bound | None:
    """Return the bound of a learner that was added, from its event."""
    return None if row is None else from_json(row)


def _add_logged(portfolio: Any, data: Mapping[str, Plain]) -> None:
    (learner,) = rebuild_learners([data["learner"]], None)
    AdaptedLearner(learner).restore(data["learner"]["state"])
    portfolio.add_learner(learner, bound=bound_from(data["bound"]))


def _decide(state: PortfolioState, data: Mapping[str, Plain]) -> None:
    """Fold a round as it was decided; no learner is asked."""
    data, left_out = old_forms.decided(data)
    choice = None if data["choice"] is None else Choice(*data["choice"])
    proposals = {int(j): Proposal(*proposal) for j, proposal in data["proposals"].items()}
    decision, selector = Decision.of_event(data), state.selection.selector
    if choice is not None:
        state.selection.replay(choice, data["id"], data["round"], data["available"], data.get("odds"))
        observe(state.selection, choice, proposals, dict(data["substitutes"]), decision.action, state.settings)
        if left_out:
            require(selector, LeavesOut, "leave a round out of evidence").leave_out(choice)
    ticket = Ticket(data["round"], choice, data["context"], decision.action, decision.learner)
    ticket.id, ticket.time, ticket.regret = decision.id, state.tickets.time, data["regret"]
    ticket.learners_to_update, ticket.weight = optional_tuple(data["learners_to_update"]), data["weight"]
    ticket.action_probability, ticket.propensity = decision.action_probability, decision.propensity
    ticket.deferred = data.get("deferred", "")
    note_given_proposals(ticket, state.selection)
    if ticket.learner is not None and (ticket.substituted or choice is None or not choice.greedy):
        ticket.plan = proposals[ticket.learner].plan
    if state.updates.weighted:
        ticket.others = {j: proposal.action for j, proposal in proposals.items() if j != ticket.learner}
    if "seen" in data:
        state.inputs.see(data["seen"])
    if data["digest"]:
        state.tickets.callers.remember(data["digest"], decision, ticket.round)
    else:
        state.tickets.ids.record(decision.id)
    if data.get("unit") is not None:
        state.keep(unit_key(data["unit"], data["slot"]), ticket, decision)
    state.counts.fallbacks += bool(data["fallback"])
    state.open(ticket, monitored=not left_out)
    state.pool.count_answers(proposals, data["failures"], data.get("refused", ()), ticket.round)
    if state.tickets.held.holds:
        state.credit_due()


# How each kind of event changes a portfolio and its state.
FOLDS: dict[str, Callable[[Any, PortfolioState, Mapping[str, Plain]], object]] = {
    "decided": lambda _, state, data: _decide(state, data),
    "rewarded": lambda _, state, data: state.fold_settled("rewarded", data),
    "expired": lambda _, state, data: state.fold_settled("expired", data),
    "deadlines_extended": lambda _, state, data: state.extend_deadlines(data["seconds"], state.tickets.time),
    "withdrawn": lambda _, state, data: state.fold_withdrawn(data),
    "activated": lambda _, state, data: deferring.fold(state, data),
    "ignored": lambda _, state, data: state.ignore(data["id"]),
    "updates_retried": lambda _, state, data: state.retry_updates(logged_failures(data)),
    "learner_added": lambda portfolio, _, data: _add_logged(portfolio, data),
    "learner_removed": lambda portfolio, _, data: portfolio.remove_learner(data["name"]),
    "learner_renamed": lambda portfolio, _, data: portfolio.rename_learner(data["name"], data["new"]),
    "learner_suspended": lambda portfolio, _, data: portfolio.suspend(data["name"]),
    "learner_resumed": lambda portfolio, _, data: portfolio.resume(data["name"]),
    "learner_warmed": lambda _, state, data: state.fold_warmed(data),
    "rounds_replayed": lambda _, state, data: state.count_replayed(data["rounds"]),
    "config": lambda _, state, data: state.fold_config(data),
    "scaled": lambda _, state, data: state.fix_scales(data),
    "rule": lambda _, state, data: state.note_rule(data["version"]),
}
