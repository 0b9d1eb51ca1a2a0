"""Several rewards of one decision: how they are told apart and combined."""

from __future__ import annotations

from equipoise.errors import DuplicateReward, InvalidArgument
from equipoise.portfolio.tickets import Ticket

AGGREGATES = ("first", "sum", "last")


def check_key(ticket: Ticket, key: object) -> str:
    """The key of a further reward of a decision; raises an error if a reward with this key has arrived."""
    if not isinstance(key, str) or not key:
        raise InvalidArgument(f"key is {key!r:.80}, but every reward of a decision needs a nonempty string of its own")
    if key in ticket.rewards:
        raise DuplicateReward(f"decision {ticket.id} already has the reward with key {key!r}")
    return key


def combine(aggregate: str, rewards: dict[str, float], default: float) -> float:
    """The reward of a decision from those that arrived, `default` if none did."""
    if not rewards:
        return default
    return sum(rewards.values()) if aggregate == "sum" else list(rewards.values())[-1]
