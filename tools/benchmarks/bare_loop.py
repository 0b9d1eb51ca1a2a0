"""The floor: LinUCB on features drawn beforehand, nothing else, as fast as Numba and BLAS make it.

No contexts are drawn, no bound is kept and nothing is selected, sums may be reordered at will: what a simulator can be
compared with, not something to use.
"""

from math import sqrt

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@numba.njit(fastmath=True)  # a floor: nothing of the package may reorder sums, but this loop may be as fast as it can
def loop(features: Array, means: Array, noise: Array, width: float, ridge: float) -> NDArray[np.int64]:
    """The chosen actions of all rounds; features are (T, K, d), expected rewards (T, K), noise (T,)."""
    n_rounds, n_actions, dim = features.shape
    inverse, theta = np.eye(dim) / ridge, np.zeros(dim)
    images, squared_norms = np.empty((n_actions, dim)), np.empty(n_actions)
    actions = np.empty(n_rounds, np.int64)
    for t in range(n_rounds):
        offered = features[t]
        np.dot(offered, inverse, images)
        action, greatest = 0, -np.inf
        for k in range(n_actions):
            mean = squared_norm = 0.0
            for i in range(dim):
                mean += offered[k, i] * theta[i]
                squared_norm += offered[k, i] * images[k, i]
            squared_norms[k] = squared_norm
            optimistic = mean + width * sqrt(squared_norm)
            if optimistic > greatest:
                action, greatest = k, optimistic
        error = means[t, action] + noise[t]
        for i in range(dim):
            error -= offered[action, i] * theta[i]
        scale = 1.0 + squared_norms[action]
        for i in range(dim):
            step = images[action, i] / scale
            theta[i] += error * step
            for j in range(dim):
                inverse[i, j] -= step * images[action, j]
        actions[t] = action
    return actions
