"""Gradient-boosted trees by LightGBM, fitted anew on a window of the last lessons."""

from __future__ import annotations

from typing import Any, ClassVar

from equipoise.adapters.models.windowed import WindowedModel
from equipoise.settings import configurable
from equipoise.types import Array

# One thread and a fixed order of sums, so that equal lessons give equal trees.
REPEATABLE = {"deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0, "verbosity": -1}


@configurable
class LightGBM(WindowedModel):
    """Gradient-boosted trees by LightGBM.

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
        Further parameters of LightGBM, such as {"num_leaves": 15}. Default: {}.
    """

    library: ClassVar[str] = "lightgbm"

    def fit(self, rows: Array, rewards: Array, weights: Array) -> bytes:
        import lightgbm

        data = lightgbm.Dataset(rows, rewards, weight=weights)
        booster = lightgbm.train({"objective": "regression", **self.settings, **REPEATABLE}, data, self.trees)
        return str(booster.model_to_string()).encode()

    def load(self, data: bytes) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=data.decode())

    def dump(self, model: Any) -> bytes:
        return str(model.model_to_string()).encode()

    def predict(self, model: Any, rows: Array) -> Array:
        scores: Array = model.predict(rows, num_threads=1)
        return scores
