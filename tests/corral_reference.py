"""CORRAL, written from its publication with one vector operation per line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq


def barrier_step(weights: Any, losses: Any, rates: Any) -> tuple[Any, float]:
    """Log-Barrier-OMD by a general root finder."""
    inverse = 1.0 / weights
    if losses.max() == losses.min():
        return weights, losses.min()

    def excess(shift: float) -> float:
        return float(np.sum(1.0 / (inverse + rates * (losses - shift))) - 1.0)

    top = min(losses.max(), float(np.min(losses + (inverse - 1.0) / rates)))
    shift = brentq(excess, losses.min(), top, xtol=1e-16, rtol=1e-15) if excess(losses.min()) < 0.0 else losses.min()
    return 1.0 / (inverse + rates * (losses - shift)), shift


class SlowCorral:
    """The published algorithm, one vector operation per line."""

    def __init__(self, n: int, rounds: int, eta: float) -> None:
        self.rounds, self.p, self.bar = rounds, np.full(n, 1 / n), np.full(n, 1 / n)
        self.eta, self.rho = np.full(n, eta), np.full(n, 2.0 * n)

    def learn(self, i: int, loss: float) -> None:
        losses = np.zeros(len(self.p))
        losses[i] = loss / self.bar[i]
        self.p = barrier_step(self.p, losses, self.eta)[0]
        self.bar = (1 - 1 / self.rounds) * self.p + 1 / (self.rounds * len(self.p))
        late = 1 / self.bar > self.rho
        self.rho[late] = 2 / self.bar[late]
        self.eta[late] *= math.exp(1 / math.log(self.rounds))
