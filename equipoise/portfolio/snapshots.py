"""Policies of learners that are kept to be played again, as the arrays of their states, under numbers.

A kept policy plays by lending its state to the learner for one decision. The learner itself is as before, whether or
not the decision succeeds. Whoever plays a number is done with the others of that learner; one more waits beside it
only until then, in case that the round in which it was kept is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable

from equipoise.learner import AdaptedLearner, Proposal
from equipoise.types import State


class KeptPolicies:
    """The kept policies of all learners."""

    def __init__(self) -> None:
        self._states: dict[int, dict[int, State]] = {}  # by learner and number

    def keep(self, i: int, number: int, learner: AdaptedLearner) -> None:
        """Keep the policy that learner i has now."""
        self._states.setdefault(i, {})[number] = learner.state()

    def play(self, i: int, number: int, learner: AdaptedLearner, decide: Callable[[], Proposal]) -> Proposal:
        """What `decide` returns with a kept policy of learner i."""
        policy = self._states[i][number]
        own = learner.state()
        learner.restore(policy)
        try:
            proposal = decide()
        finally:
            learner.restore(own)
        self._states[i] = {number: policy}
        return proposal

    def state(self) -> list[tuple[int, int, State]]:
        return [(i, number, state) for i in sorted(self._states) for number, state in sorted(self._states[i].items())]

    def restore(self, state: list[tuple[int, int, State]]) -> None:
        self._states = {}
        for i, number, arrays in state:
            self._states.setdefault(int(i), {})[int(number)] = dict(arrays)
