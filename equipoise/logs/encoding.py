"""Contexts for learners: one matrix per round, with one offered action per row.

If the offers have features, a row is those features followed by the shared ones. Otherwise every action has its own
coefficients: the first K columns are the indicator of the action, and shared feature j has columns K (j + 1) to
K (j + 2) - 1, the indicator times its value. So the first K (m + 1) columns are the model with the first m features,
and models of different sizes are nested.
"""

from __future__ import annotations

import numpy as np

from equipoise.logs.batches import Rounds
from equipoise.types import Array


def contexts(rounds: Rounds, columns: int | None = None) -> Array:
    """The first `columns` columns (default: all) of the contexts, (rounds, actions, columns); 0 where not offered."""
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
