"""Models of scikit-learn that learn one row at a time: whatever has `partial_fit`.

Of the linear models by stochastic gradient descent (`SGDRegressor`, `SGDClassifier` with logistic loss) the state is
three arrays, and scores are one matrix product, as `predict` takes longer than the rest of the round. Other estimators
are saved by skops and score with their own methods.

A classifier learns a reward r in (-1, 1) as the label 1 with weight q = (1 + r) / 2 and the label 0 with weight 1 - q,
whose expected logistic loss is that of r; it scores with 2 p - 1, p the probability of the label 1.
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

SKLEARN = Library("sklearn", ("linear_model", "neural_network", "naive_bayes"))
PACKAGES = ("sklearn", "numpy", "scipy")
LABELS = np.array([0, 1])
LINEAR = ("coef_", "intercept_")  # the arrays of a linear model, beside its step t_


def _description(name: str, value: Any) -> Plain:
    """The description of an estimator that is given as an object or as its description; fills in the class."""
    require("a model of scikit-learn", "sklearn", "skops")
    estimator = SKLEARN.build(value) if isinstance(value, dict) else value
    description = SKLEARN.describe(estimator)
    if not callable(getattr(estimator, "partial_fit", None)):
        raise InvalidArgument(f"{name} is {estimator!r:.80}, but must have partial_fit()")
    if _is_classifier(estimator) and not hasattr(estimator, "predict_proba"):
        raise InvalidArgument(f"{name} is {estimator!r:.80}, but must have predict_proba(), as its scores are those")
    return description


def _is_classifier(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    return bool(is_classifier(estimator))


@configurable
class Sklearn(Model):
    """An estimator of scikit-learn with `partial_fit`: a regressor, or a classifier with `predict_proba`.

    Its parameters are used, not what it has learned. A `random_state` of None becomes 0, so that runs can be repeated.
    """

    estimator: Plain = setting(
        'The estimator, or its description, such as {"class": "linear_model.SGDRegressor", "eta0": 0.05}.',
        _description,
        kw_only=False,
    )

    @property
    def bounded(self) -> bool:
        return self._classifies

    def open(self) -> None:
        self._model = SKLEARN.build(self.estimator)
        if getattr(self._model, "random_state", 0) is None:
            self._model.set_params(random_state=0)
        self._keeps_losses = str(self.estimator["class"]).startswith("neural_network.MLP")
        self._classifies = _is_classifier(self._model)
        self._linear = self.describe() in ("SGDRegressor", "SGDClassifier") and not self._model.average
        if self._linear:
            self._open_linear()

    def _open_linear(self) -> None:
        """One update creates the arrays, which are then cleared."""
        # Without shuffling a generator is never used, but one that had to be created anew would cost every update time.
        self._model.set_params(random_state=np.random.RandomState(0), shuffle=False)
        rows, labels = np.zeros((1, self.n_features)), np.zeros(1)
        self._model.partial_fit(rows, labels, **({"classes": LABELS} if self._classifies else {}))
        zeros = {name: np.zeros_like(getattr(self._model, name)) for name in LINEAR}
        self._set_linear({**zeros, "t_": np.ones(1)})

    def _set_linear(self, state: State) -> None:
        for name in LINEAR:
            setattr(self._model, name, np.array(state[name], order="C"))
        self._model.t_ = float(state["t_"][0])

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self._model, "n_features_in_")

    def scores(self, rows: Array) -> Array:
        if self._linear:
            scores: Array = (
                rows @ (self._model.coef_[0] if self._classifies else self._model.coef_) + self._model.intercept_[0]
            )
            return np.tanh(0.5 * scores) if self._classifies else scores  # 2 p - 1, p the logistic function
        if not self._is_fitted:
            return np.zeros(len(rows))
        if self._classifies:
            return 2.0 * np.asarray(self._model.predict_proba(rows)[:, 1], np.float64) - 1.0
        predicted: Array = self._model.predict(rows)
        return predicted

    def learn(self, row: Array, reward: float, weight: float) -> None:
        if self._classifies:
            self._learn_labels(row, reward, weight)
        elif weight == 1.0:  # checking a weight takes as long as the update
            self._fit(row[None], [reward])
        else:
            self._fit(row[None], [reward], sample_weight=[weight])
        if self._keeps_losses:
            self._model.loss_curve_.clear()  # a neural network keeps the loss of every update, and uses the last only

    def _learn_labels(self, row: Array, reward: float, weight: float) -> None:
        share = 0.5 * (1.0 + reward)
        weights = np.array([1.0 - share, share]) * weight
        used = weights > 0.0
        rows = np.broadcast_to(row, (int(used.sum()), self.n_features))
        classes = {} if self._is_fitted else {"classes": LABELS}
        self._fit(rows, LABELS[used], sample_weight=weights[used], **classes)

    def _fit(self, *update: Any, **more: Any) -> None:
        """Learn an update whose numbers were checked: checking them again takes a tenth of the time."""
        from sklearn import config_context

        with config_context(assume_finite=True):
            self._model.partial_fit(*update, **more)

    def state(self) -> State:
        if self._linear:
            arrays = {name: getattr(self._model, name).copy() for name in LINEAR}
            return {**arrays, "t_": np.array([self._model.t_])}
        return {"estimator": as_array(pack(self._model))}

    def restore(self, state: State) -> None:
        if self._linear:
            self._set_linear(state)
            return
        self._model = unpack_like(self._model, state["estimator"].tobytes(), PACKAGES)

    def describe(self) -> str:
        return str(self.estimator["class"]).rpartition(".")[2]
