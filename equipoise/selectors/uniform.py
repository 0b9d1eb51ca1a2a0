"""Uniform choice: every round goes to a learner sampled uniformly, independently of the rewards.

It is the baseline without selection: the regret is the sum of what each learner would lose alone in its share of the
rounds. There is no other guarantee.

>>> selector = Uniform(4, seed=3)
>>> selector.choose().probability
0.25
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params, State, count_active, nth_active
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import seed_setting
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    n_active = count_active(state)
    # The product can round up to n_active although the random number is below 1.
    return nth_active(state, min(int(rng.random() * n_active), n_active - 1)), 1.0 / n_active


@configurable
class Uniform(KernelSelector[Params, State, Elimination]):
    """Chooses every learner with the same probability."""

    name = "Uniform"
    explanation = "A learner is sampled uniformly, whatever the rewards."
    refuses_learners = ""
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.credit_only)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    seed: int = seed_setting()

    def _chances(self) -> tuple[float, ...]:
        n_active = count_active(self.evidence)
        return tuple(1.0 / n_active if account.active else 0.0 for account in self.evidence.accounts)
