"""Deferred decisions: until they are activated under their names, they do not count.

A reward that arrives before the activation waits in the decision. At the deadline, a decision that was not activated is
withdrawn (`PortfolioState.expire_ticket`).
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.portfolio.state import EARLY, PortfolioState
from equipoise.portfolio.tickets import check_id
from equipoise.types import Plain


def activate(state: PortfolioState, name: str, at: float | None) -> int:
    """Let the decisions of a name count from now on, except those past their deadline; return the number of these."""
    before, tickets = state.tickets.time, state.tickets
    check_id("name", name)
    state.admit(at)
    waiting = [tickets.open[id_] for id_ in tickets.deferred.get(name, ())]
    activated = [ticket for ticket in waiting if not tickets.is_overdue(ticket)]
    if not activated:
        tickets.time = before  # nothing happened, so there is no event that could repeat this
        return 0
    for ticket in activated:
        tickets.activate(ticket)
        state.events.emit("activated", {"id": ticket.id})
        if EARLY in ticket.rewards:
            state.learn(ticket.id, ticket.rewards[EARLY], ticket.outcome, None, None)
    return len(activated)


def fold(state: PortfolioState, data: Mapping[str, Plain]) -> None:
    """Fold an activation; a reward that waited has an event of its own."""
    state.tickets.activate(state.tickets.open[data["id"]])
