"""What a smoothed learner does in a round, read from the state of its selector."""

from typing import Any, NamedTuple

from equipoise.selector import Choice
from equipoise.selectors._core.evidence import KEEP, REPLAY, TEACH


class Task(NamedTuple):
    """TEACH (play and learn), KEEP (and store its policy) or REPLAY, and the number of the policy."""

    kind: int
    policy: int


def task_of(selector: Any, choice: Choice) -> Task:
    """Return what the learner of the newest round does in it."""
    state = selector.kernel_state
    policies = state.policies[choice.learner]
    if state.turn[0].learner < 0:  # a second round has ended the turn
        return Task(REPLAY, policies.kept)
    return Task(KEEP if policies.kept == policies.updates else TEACH, policies.updates)


def odds(selector: Any) -> list[float]:
    """Return the probability with which each learner is sampled."""
    return [row.probability for row in selector.kernel_state.odds]
