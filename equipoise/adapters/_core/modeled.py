"""What learners share that decide by regressions of other libraries, which see rewards in units of half their range."""

from __future__ import annotations

from math import isnan

import numpy as np

from equipoise.adapters._core.outside import OutsideLearner
from equipoise.adapters.model import Model
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.settings import Configured
from equipoise.types import Array, Config


def target_of(learner: OutsideLearner, model: Model, reward: float) -> float:
    """Return a reward as the model of a learner learns it; raise an error if it cannot."""
    share = learner.share(reward)
    if model.bounded and not 0.0 <= share <= 1.0:
        low, high = learner.reward_range
        raise InvalidArgument(f"reward is {reward!r}, but must lie in [{low}, {high}] for {model.describe()}")
    return 2.0 * share - 1.0


def scores_of(learner: OutsideLearner, model: Model, rows: Array) -> Array:
    """Return the scores of rows; raise an error if one is nan."""
    scores = model.scores(rows)
    if isnan(scores[scores.argmax()]):  # argmax finds any nan
        raise EquipoiseError(f"the model of {learner.name!r} predicts nan: scale the features or slow it down")
    return scores


def shares(scores: Array) -> Array:
    """Return scores as shares of the reward range, clipped to [0, 1]."""
    return np.minimum(np.maximum(0.5 + 0.5 * scores, 0.0), 1.0)


def plain_part(part: Configured) -> Config:
    """Return the plain form of a part."""
    return {"class": type(part).__name__, **part.config()}
