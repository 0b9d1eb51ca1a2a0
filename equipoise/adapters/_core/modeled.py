"""Base class of learners that decide by regressions of other libraries."""

from __future__ import annotations

from math import isnan

import numpy as np

from equipoise.adapters._core.outside import OffersLearner
from equipoise.adapters.model import Model
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.settings import Configured
from equipoise.types import Array, Config


class ModelLearner(OffersLearner):
    """A learner with models, which see rewards and give scores in units of half the reward range.

    Subclasses declare the setting `model`, which says the number of features if the learner does not.
    """

    model: Model

    def _n_features(self) -> int | None:
        return self.model.dim

    def target(self, model: Model, reward: float) -> float:
        """The reward as the model learns it; raises an error if the model cannot learn it."""
        share = self.share(reward)
        if model.bounded and not 0.0 <= share <= 1.0:
            low, high = self.reward_range
            raise InvalidArgument(f"reward is {reward!r}, but must lie in [{low}, {high}] for {model.describe()}")
        return 2.0 * share - 1.0

    def scores(self, model: Model, rows: Array) -> Array:
        """The scores of rows; raises an error if one is nan."""
        scores = model.scores(rows)
        if isnan(scores[scores.argmax()]):  # argmax finds any nan
            raise EquipoiseError(f"the model of {self.name!r} predicts nan: scale the features or slow it down")
        return scores


def shares(scores: Array) -> Array:
    """Scores as shares of the reward range, clipped to [0, 1]."""
    return np.minimum(np.maximum(0.5 + 0.5 * scores, 0.0), 1.0)


def plain_part(part: Configured) -> Config:
    """The plain form of a part."""
    return {"class": type(part).__name__, **part.config()}
