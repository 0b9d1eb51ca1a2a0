"""Several rewards of one decision: how they are told apart and combined."""

from __future__ import annotations

from equipoise.errors import DuplicateReward, InvalidArgument
from equipoise.portfolio.ids import MAX_LENGTH
from equipoise.portfolio.tickets import Ticket
from equipoise.settings.checks import boolean, real

AGGREGATES = ("first", "sum", "last")


def check_key(ticket: Ticket, key: object) -> str:
    """The key of a further reward of a decision; raises an error if a reward with this key has arrived."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_LENGTH or not key.isprintable():
        rule = f"needs a nonempty string of its own, printable and of at most {MAX_LENGTH} characters"
        raise InvalidArgument(f"key is {key!r:.80}, but every reward of a decision {rule}")
    if key in ticket.rewards:
        raise DuplicateReward(f"decision {ticket.id} already has the reward with key {key!r}")
    return key


def combine(aggregate: str, rewards: dict[str, float], default: float) -> float:
    """The reward of a decision from those that arrived, `default` if none did."""
    if not rewards:
        return default
    return sum(rewards.values()) if aggregate == "sum" else list(rewards.values())[-1]


def check_clip(clip: object, units: tuple[float, float] | None, noise: float | None) -> bool:
    """Whether to clip; raises an error if rewards have no range to clip them to."""
    if not boolean("clip", clip):
        return False
    if units is None:
        raise InvalidArgument("clip is True, but neither portfolio nor selector has a reward_range to clip to")
    if noise is not None:
        raise InvalidArgument(
            f"clip is True, but the selector states noise = {noise:g}, which is for rewards without limits"
        )
    return True


def clipped(reward: float, limits: tuple[float, float]) -> float:
    """The reward in the range."""
    return min(max(real("reward", reward), limits[0]), limits[1])
