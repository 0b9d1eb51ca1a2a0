"""The contract of a problem: where contexts and rewards come from. It knows its own optimum, so regret is exact."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Problem(Protocol):
    """A source of rounds. A problem may also have `record(learner, action, reward)`, called after every round, for
    adversaries that look at the history, and `play(context, action, rng)`, which gives reward and outcome at once where
    more than the action is learned from (an episode)."""

    @property
    def name(self) -> str: ...

    @property
    def reward_range(self) -> tuple[float, float]:
        """Of the rewards; of the expected rewards where the noise is unbounded."""
        ...

    @property
    def iid(self) -> bool:
        """Whether contexts are independent and identically distributed."""
        ...

    @property
    def noise(self) -> float | None:
        """Sub-Gaussian factor of unbounded noise, None where rewards keep to the range."""
        ...

    def observe(self, rng: np.random.Generator) -> Any:
        """The context of the next round."""
        ...

    def respond(self, context: Any, action: Any, rng: np.random.Generator) -> float:
        """The reward of an action."""
        ...

    def gap(self, context: Any, action: Any) -> float:
        """The exact expected loss of an action against the best one in this context."""
        ...

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        ...


def play(problem: Any, context: Any, action: Any, rng: np.random.Generator) -> tuple[float, Any]:
    """Reward and outcome of an action; the outcome is None where the action is all there is to learn from."""
    if hasattr(problem, "play"):
        reward, outcome = problem.play(context, action, rng)
        return reward, outcome
    return problem.respond(context, action, rng), None
