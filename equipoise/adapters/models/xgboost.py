"""Gradient-boosted trees by XGBoost, fitted anew on a window of the last lessons."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from equipoise.adapters.models.windowed import WindowedModel
from equipoise.settings import configurable
from equipoise.types import Array

REPEATABLE = {"nthread": 1, "seed": 0, "verbosity": 0, "device": "cpu"}


@configurable
class XGBoost(WindowedModel):
    """Gradient-boosted trees by XGBoost.

    Parameters
    ----------
    dim
        Number of features used: the first `dim` columns of a context. At least 1.
    window
        Number of last lessons that a fit uses. Default: 2048.
    every
        Number of lessons between fits. Default: 256.
    lag
        Number of lessons after which a fit takes effect, at most `every`. Default: 64.
    trees
        Number of trees. Default: 20.
    settings
        Further parameters of XGBoost, such as {"max_depth": 4}. Default: {}.
    """

    library: ClassVar[str] = "xgboost"

    def fit(self, rows: Array, rewards: Array, weights: Array) -> bytes:
        import xgboost

        data = xgboost.DMatrix(rows, rewards, weight=weights, nthread=1)
        return bytes(xgboost.train({**self.settings, **REPEATABLE}, data, self.trees).save_raw("ubj"))

    def load(self, data: bytes) -> Any:
        import xgboost

        booster = xgboost.Booster({"nthread": 1, "verbosity": 0})
        booster.load_model(bytearray(data))
        return booster

    def dump(self, model: Any) -> bytes:
        return bytes(model.save_raw("ubj"))

    def predict(self, model: Any, rows: Array) -> Array:
        return np.asarray(model.inplace_predict(rows), np.float64)
