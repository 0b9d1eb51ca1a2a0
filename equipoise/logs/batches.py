"""A batch of consecutive logged rounds, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.types import Array, Integers


class Rounds(NamedTuple):
    """Consecutive rounds of a log, one entry per round."""

    rows: Integers  # row or line of the file, from 1
    shared: Array  # (n, shared columns) features of the round
    offers: Array  # (n, actions, offer columns) features of the offered actions; 0 beyond the last offered one
    n_offered: Integers  # offered actions are 0, ..., n_offered - 1
    actions: Integers
    rewards: Array
    propensities: Array  # probability of the logged action
    pmf: Array  # (n, actions) probability of every action; nan where the log does not say
    weights: Array  # how many rounds it stands for: 1 / (1 - pdrop) if rounds were dropped at random
    times: Array  # seconds since 1970; nan where the log does not say
    ids: NDArray[np.uint64]  # digest of the event's id; 0 where it has none

    @property
    def n_rounds(self) -> int:
        return len(self.rows)


def take(rounds: Rounds, which: NDArray[np.bool_]) -> Rounds:
    """The selected rounds."""
    return rounds if which.all() else Rounds._make(array[which] for array in rounds)
