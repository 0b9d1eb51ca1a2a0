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


def contexts(rounds: Rounds, columns: int | None = None) -> Array:
    """The first `columns` columns (default: all) of the contexts, (rounds, actions, columns); 0 where not offered.

    If the offers have features, a row is those features followed by the shared ones. Otherwise every action has its own
    coefficients: the first K columns are the indicator of the action, and shared feature j has columns K (j + 1) to
    K (j + 2) - 1, the indicator times its value. So the first K (m + 1) columns are the model with the first m
    features, and models of different sizes are nested.
    """
    n, n_actions, n_own = rounds.offers.shape
    n_shared = rounds.shared.shape[1]
    if n_own:
        rows = np.empty((n, n_actions, n_own + n_shared))
        rows[:, :, :n_own] = rounds.offers
        offered = np.arange(n_actions) < rounds.n_offered[:, None]
        rows[:, :, n_own:] = rounds.shared[:, None, :] * offered[:, :, None]
        return rows[:, :, :columns] if columns is not None else rows
    total = n_actions * (n_shared + 1)
    width = total if columns is None else min(columns, total)
    rows = np.zeros((n, n_actions, width))
    each = np.arange(n_actions)
    for j in range(-(-width // n_actions)):
        own = each[: width - j * n_actions]
        rows[:, own, j * n_actions + own] = 1.0 if j == 0 else rounds.shared[:, j - 1, None]
    return rows
