"""The oracle: it knows which learner is best and always plays it.

It is the upper reference for every other selector, as `Uniform` is the lower one. Its regret is that of the best
learner playing alone.

>>> Oracle(3, best=1).choose().learner
1
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params, State, nth_active
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The only active learner."""
    return nth_active(state, 0), 1.0


@configurable
class Oracle(KernelSelector[Params, State, Elimination]):
    """Plays the learner with index `best` in every round."""

    name = "Oracle"
    explanation = "The learner that was named as the best one always plays."
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.credit_only)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    best: int = setting("Index of the best learner.")

    def _set_up(self) -> None:
        self.best = count("best", self.best, minimum=0, maximum=self.n_learners - 1)
        super()._set_up()

    @property
    def excluded(self) -> tuple[int, ...]:
        """Learners that are never played."""
        return tuple(i for i in range(self.n_learners) if i != self.best)
