"""Regressors of River, alone or behind transformers in a pipeline.

Features are named "0", "1", ... River's own bandits are not used, as they give no propensities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.adapters._core.objects import Library, pack, unpack_like
from equipoise.adapters._core.outside import as_array
from equipoise.adapters.model import Model
from equipoise.errors import InvalidArgument, require
from equipoise.settings import configurable, setting
from equipoise.types import Array, Plain, State

RIVER = Library(
    "river",
    ("linear_model", "preprocessing", "compose", "optim", "optim.schedulers", "optim.losses", "optim.initializers"),
    {"BayesianLinearRegression": "its predictions change the model"},
)
PACKAGES = ("river", "numpy")


def _description(name: str, value: Any) -> Plain:
    require("a model of River", "river", "skops")
    regressor = RIVER.build(value) if isinstance(value, dict) else value
    description = RIVER.describe(regressor)
    for method in ("predict_one", "learn_one"):
        if not callable(getattr(regressor, method, None)):
            raise InvalidArgument(f"{name} is {regressor!r:.80}, but must have {method}()")
    return description


@configurable
class River(Model):
    """A regressor of River: a linear model, or a pipeline that ends in one.

    Its settings are used, not what it has learned. Trees, forests and nearest neighbors are refused: their state cannot
    be saved exactly without pickle.
    """

    regressor: Plain = setting(
        'The regressor, or its description, such as {"class": "linear_model.LinearRegression", "l2": 0.01}.',
        _description,
        kw_only=False,
    )

    def open(self) -> None:
        self._model = RIVER.build(self.regressor)
        self._names = [str(column) for column in range(self.n_features)]

    def scores(self, rows: Array) -> Array:
        predict, names = self._model.predict_one, self._names
        return np.array([predict(dict(zip(names, row, strict=True))) for row in rows.tolist()], np.float64)

    def learn(self, row: Array, reward: float, weight: float) -> None:
        features = dict(zip(self._names, row.tolist(), strict=True))
        if weight == 1.0:
            self._model.learn_one(features, reward)
        else:
            self._model.learn_one(features, reward, w=weight)

    def state(self) -> State:
        return {"regressor": as_array(pack(self._model))}

    def restore(self, state: State) -> None:
        self._model = unpack_like(self._model, state["regressor"].tobytes(), PACKAGES)

    def describe(self) -> str:
        steps = self.regressor.get("steps", [self.regressor])
        return str(steps[-1]["class"]).rpartition(".")[2]
