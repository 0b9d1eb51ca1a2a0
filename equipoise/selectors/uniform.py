"""Uniform choice: every round goes to a learner drawn at random, whatever the rewards.

What not selecting costs: the regret is the average over learners of what each would lose alone in its share of the
rounds. No guarantee beyond that.

>>> selector = Uniform(4, seed=3)
>>> selector.choose().probability
0.25
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np

from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, Settings
from equipoise.selectors.evidence import Books, Rules


@kernel
def choose(rules: Rules, books: Books, rng: np.random.Generator) -> tuple[int, float]:
    n_learners = len(books.accounts)
    # A number below 1 can round up to n_learners in the product.
    return min(int(rng.random() * n_learners), n_learners - 1), 1.0 / n_learners


class Uniform(BookedSelector):
    """Draws every learner with the same probability. `seed` is that of its own random stream, used where `choose` is
    given none; the other settings are those of `BalancedElimination`."""

    name = "Uniform"
    randomized = True
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.book_only)

    def __init__(self, n_learners: int, *, seed: int = 0, **settings: Unpack[Settings]) -> None:
        super().__init__(n_learners, None, seed=seed, **settings)
