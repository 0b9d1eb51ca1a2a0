"""The oracle: it is told which learner is best and plays no other.

No selector can be expected to do better, as it has to find out first; with `Uniform` it brackets every score. What it
costs is the regret of that learner alone.

>>> Oracle(3, best=1).choose().learner
1
"""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import numpy as np

from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, Settings
from equipoise.selectors.evidence import Books, Rules
from equipoise.validation import count


@kernel
def choose(rules: Rules, books: Books, rng: np.random.Generator) -> tuple[int, float]:
    """The only learner that is active."""
    chosen = 0
    while not books.accounts[chosen].active:
        chosen += 1
    return chosen, 1.0


class Oracle(BookedSelector):
    """Plays the learner with index `best` in every round; the other settings are those of `BalancedElimination`."""

    name = "Oracle"
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.book_only)

    def __init__(self, n_learners: int, *, best: int, **settings: Unpack[Settings]) -> None:
        self.best = count("best", best, least=0, most=count("n_learners", n_learners) - 1)
        super().__init__(n_learners, None, **settings)

    @property
    def left_out(self) -> tuple[int, ...]:
        """The learners that are never played."""
        return tuple(i for i in range(self.n_learners) if i != self.best)

    def _open_books(self) -> Books:
        books: Books = super()._open_books()
        for i in self.left_out:
            books.accounts[i].active = False
        return books

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        return {**super().config(), "best": self.best}
