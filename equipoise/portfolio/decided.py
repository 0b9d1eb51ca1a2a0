"""What the event of a decided round holds, so that a fold can decide it again without asking anybody."""

from __future__ import annotations

from equipoise.portfolio.choosing import Nobody, Turn
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.members import describe_error
from equipoise.portfolio.tickets import Ticket
from equipoise.types import Config


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
        "students": ticket.students,
        "failures": failures_of(turn),
        "fallback": isinstance(turn, Nobody),
    }
