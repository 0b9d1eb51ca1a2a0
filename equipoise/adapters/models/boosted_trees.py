"""Gradient-boosted trees by LightGBM and XGBoost, fitted again from time to time on a window of the last updates."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from equipoise.adapters.models.windowed import WindowedModel
from equipoise.errors import InvalidArgument
from equipoise.settings import configurable, describe, setting
from equipoise.settings.checks import count
from equipoise.types import Array, Config

# One thread and a fixed order of sums, so that equal updates give equal trees.
LIGHTGBM = {"deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0, "verbosity": -1}
XGBOOST = {"nthread": 1, "seed": 0, "verbosity": 0, "device": "cpu"}


def plain_settings(name: str, value: Any) -> Config:
    """Settings of a library: a dict from names to numbers, strings, booleans or lists of these."""
    items = (bool, int, float, str)
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be a dict of settings")
    for key, item in value.items():
        values = item if isinstance(item, list | tuple) else [item]
        if not isinstance(key, str) or not all(isinstance(each, items) for each in values):
            raise InvalidArgument(f"{name}[{key!r}] is {item!r:.80}, but must be a number, a string or a list of these")
    return {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}


@configurable
class BoostedTrees(WindowedModel):
    """Trees of a library, with its own parameters."""

    trees: int = setting("Number of trees.", partial(count, maximum=100_000), default=20)
    settings: Config = setting(
        "Further parameters of the library. Default: {}.",
        lambda name, value: plain_settings(name, value or {}),
        default=None,
    )


@describe(settings='Further parameters of LightGBM, such as {"num_leaves": 15}. Default: {}.')
@configurable
class LightGBM(BoostedTrees):
    """Gradient-boosted trees by LightGBM."""

    library: ClassVar[str] = "lightgbm"

    def fit(self, rows: Array, rewards: Array, weights: Array) -> Any:
        import lightgbm

        data = lightgbm.Dataset(rows, rewards, weight=weights)
        return lightgbm.train({"objective": "regression", **self.settings, **LIGHTGBM}, data, self.trees)

    def load(self, data: bytes) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=data.decode())

    def dump(self, model: Any) -> bytes:
        return str(model.model_to_string()).encode()

    def predict(self, model: Any, rows: Array) -> Array:
        scores: Array = model.predict(rows, num_threads=1)
        return scores


@describe(settings='Further parameters of XGBoost, such as {"max_depth": 4}. Default: {}.')
@configurable
class XGBoost(BoostedTrees):
    """Gradient-boosted trees by XGBoost."""

    library: ClassVar[str] = "xgboost"

    def fit(self, rows: Array, rewards: Array, weights: Array) -> Any:
        import xgboost

        data = xgboost.DMatrix(rows, rewards, weight=weights, nthread=1)
        return xgboost.train({**self.settings, **XGBOOST}, data, self.trees)

    def load(self, data: bytes) -> Any:
        import xgboost

        booster = xgboost.Booster({"nthread": 1, "verbosity": 0})
        booster.load_model(bytearray(data))
        return booster

    def dump(self, model: Any) -> bytes:
        return bytes(model.save_raw("ubj"))

    def predict(self, model: Any, rows: Array) -> Array:
        return np.asarray(model.inplace_predict(rows), np.float64)
