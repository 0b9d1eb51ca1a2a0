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

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import PlainSelector
from equipoise.selectors._core.evidence import Params, State, count_active, nth_active
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.settings import ConfidenceSettings, LearnerCount, Seeded
from equipoise.settings import configurable


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    n_active = count_active(state)
    # The product can round up to n_active although the random number is below 1.
    return nth_active(state, min(int(rng.random() * n_active), n_active - 1)), 1.0 / n_active


@configurable
class Uniform(LearnerCount, Seeded, ConfidenceSettings, PlainSelector):
    """Chooses every learner with the same probability.

    Parameters
    ----------
    n_learners
        Number of learners.
    delta
        Failure probability of the certificate; it does not affect choices.
    reward_range
        Lowest and highest reward; with `noise`, lowest and highest expected reward. Default: as the portfolio says;
        alone (0, 1).
    contexts
        "fixed" if contexts and action sets never change, which narrows the radius; else "random".
    radius
        Form of the confidence radius: "mixture", "stitched", "paper" or "bernstein" (bounded rewards only).
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    seed
        Seed of the selector's random numbers, used if `choose` gets no generator.
    """

    name = "Uniform"
    explanation = "A learner is sampled uniformly, whatever the rewards."
    refuses_learners = ""
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.credit_only)

    def _chances(self) -> tuple[float, ...]:
        n_active = count_active(self.evidence)
        return tuple(1.0 / n_active if account.active else 0.0 for account in self.evidence.accounts)
