"""The oracle: it is told which learner is best and plays no other.

No selector can be expected to do better, as it has to find out first; with `Uniform` it brackets every score. What it
costs is the regret of that learner alone.

>>> Oracle(3, best=1).choose().learner
1
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import PlainSelector
from equipoise.selectors._core.evidence import Params, State
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.settings import ConfidenceSettings, LearnerCount
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The only learner that is active."""
    chosen = 0
    while not state.accounts[chosen].active:
        chosen += 1
    return chosen, 1.0


@configurable
class Oracle(LearnerCount, ConfidenceSettings, PlainSelector):
    """Plays the learner with index `best` in every round; the other settings are those of `BalancedElimination`."""

    name = "Oracle"
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.book_only)

    best: int = setting()

    def _set_up(self) -> None:
        self.best = count("best", self.best, least=0, most=self.n_learners - 1)
        super()._set_up()

    @property
    def left_out(self) -> tuple[int, ...]:
        """The learners that are never played."""
        return tuple(i for i in range(self.n_learners) if i != self.best)

    def _make_state(self, accounts: State) -> State:
        for i in self.left_out:
            accounts.accounts[i].active = False
        return accounts
