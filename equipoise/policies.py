"""Policies of learners that are kept to be played again: one per learner, as the arrays of its state.

A kept policy plays by lending its state to the learner for one decision. The learner itself is as before, whether or
not the decision succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from equipoise.learner import Proposal

State = dict[str, NDArray[Any]]


class KeptPolicies:
    """One kept policy per learner, at most."""

    def __init__(self) -> None:
        self._states: dict[int, State] = {}

    def keep(self, i: int, learner: Any) -> None:
        """Keep the policy that learner i has now, in place of the one kept before."""
        self._states[i] = learner.state()

    def play(self, i: int, learner: Any, decide: Callable[[], Proposal]) -> Proposal:
        """What `decide` returns with the kept policy of learner i."""
        own = learner.state()
        learner.restore(self._states[i])
        try:
            return decide()
        finally:
            learner.restore(own)

    def state(self) -> list[tuple[int, State]]:
        return sorted(self._states.items(), key=lambda entry: entry[0])

    def restore(self, state: list[tuple[int, State]]) -> None:
        self._states = {int(i): dict(arrays) for i, arrays in state}
