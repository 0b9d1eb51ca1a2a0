"""LinUCB as one would write it in plain NumPy: a Sherman-Morrison update and three matrix products a round."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def loop(features: Array, means: Array, noise: Array, width: float, ridge: float) -> NDArray[np.int64]:
    """The chosen actions of all rounds; features are (T, K, d), expected rewards (T, K), noise (T,)."""
    n_rounds, _, dim = features.shape
    inverse, theta = np.eye(dim) / ridge, np.zeros(dim)
    actions = np.empty(n_rounds, np.int64)
    for t in range(n_rounds):
        offered = features[t]
        images = offered @ inverse
        squared_norms = np.vecdot(images, offered)
        action = int(np.argmax(offered @ theta + width * np.sqrt(squared_norms)))
        row, image, scale = offered[action], images[action], 1.0 + squared_norms[action]
        theta += image * ((means[t, action] + noise[t] - row @ theta) / scale)
        inverse -= np.outer(image, image / scale)
        actions[t] = action
    return actions
