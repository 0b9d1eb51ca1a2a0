"""Saved policies of learners: their states as arrays, each under a number, to be played again.

A saved policy plays by restoring its state in the learner for one decision. Afterwards the learner has its own state
again, whether or not the decision succeeded. Playing a number discards the other saved policies of that learner. Until
then the previous one is kept too, in case the round in which the new one was saved is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable

from equipoise.learner import AdaptedLearner, Proposal
from equipoise.types import State


class SavedPolicies:
    """The saved policies of all learners."""

    def __init__(self) -> None:
        self._states: dict[int, dict[int, State]] = {}  # by learner and number

    def keep(self, i: int, number: int, learner: AdaptedLearner) -> None:
        """Save the current policy of learner i."""
        self._states.setdefault(i, {})[number] = learner.state()

    def play(self, i: int, number: int, learner: AdaptedLearner, decide: Callable[[], Proposal]) -> Proposal:
        """What `decide` returns with a saved policy of learner i."""
        policy = self._states[i][number]
        own = learner.state()
        learner.restore(policy)
        try:
            proposal = decide()
        finally:
            learner.restore(own)
        self.played(i, number)
        return proposal

    def played(self, i: int, number: int) -> None:
        """Discard the other saved policies of learner i."""
        self._states[i] = {number: self._states[i][number]}

    def state(self) -> list[tuple[int, int, State]]:
        return [(i, number, state) for i in sorted(self._states) for number, state in sorted(self._states[i].items())]

    def restore(self, state: list[tuple[int, int, State]]) -> None:
        self._states = {}
        for i, number, arrays in state:
            self._states.setdefault(int(i), {})[int(number)] = dict(arrays)
