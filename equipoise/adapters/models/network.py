"""A small neural network, trained by torch on a window of the last updates.

Two hidden layers with tanh, the second of which gives the features of `NeuralLinear`, and a linear output. Each fit
starts from the same weights, drawn from Philox, and takes `steps` steps of Adam on batches that are drawn alike, with
the squared error; so a fit is a function of the window alone. torch is used for fits only, on the CPU and in one
thread: scores and features are three products of NumPy.

Reference: Kingma and Ba (2015), "Adam: a method for stochastic optimization".
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from equipoise.adapters.models.windowed import WindowedModel
from equipoise.kernels.streams import INSTANCE, RESAMPLING, generator_at
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, positive
from equipoise.settings.sizes import check_array
from equipoise.types import Array

Layers = list[tuple[Array, Array]]  # the weights and the offsets of each


@configurable
class Network(WindowedModel):
    """A neural network of torch with two hidden layers, fitted again on a window of the last updates."""

    hidden: int = setting("Number of units of the first layer.", partial(count, maximum=10_000), default=32)
    width: int = setting(
        "Number of units of the second layer, which are the features.", partial(count, maximum=999), default=16
    )
    steps: int = setting("Number of steps of Adam of a fit.", partial(count, maximum=1_000_000), default=300)
    batch: int = setting("Number of updates in a step.", partial(count, maximum=100_000), default=64)
    rate: float = setting("Step size of Adam, positive.", positive, default=0.01)

    library: ClassVar[str] = "torch"

    def open(self) -> None:
        check_array(f"hidden = {self.hidden}", self.n_features + self.width, self.hidden)
        super().open()
        self._sizes = list(pairwise((self.n_features, self.hidden, self.width, 1)))
        rng = generator_at(0, INSTANCE)
        self._start = [(rng.standard_normal(size) / sqrt(size[0]), np.zeros(size[1])) for size in self._sizes]

    @property
    def n_fits(self) -> int:
        """Number of fits that have taken effect."""
        return max(0, (self._n_updates - self.lag) // self.every)

    def features(self, rows: Array) -> Array:
        """The units of the second layer for each row, in (-1, 1); those of the first weights before the first fit."""
        *hidden, _ = self._start if self._model is None else self._model
        for weights, offsets in hidden:
            rows = np.tanh(rows.dot(weights) + offsets)
        return rows

    def predict(self, model: Any, rows: Array) -> Array:
        weights, offsets = model[-1]
        scores: Array = self.features(rows).dot(weights[:, 0]) + offsets[0]
        return scores

    def fit(self, rows: Array, rewards: Array, weights: Array) -> Any:
        import torch

        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._trained(torch, rows, rewards, weights)
        finally:
            torch.set_num_threads(n_threads)

    def _trained(self, torch: Any, rows: Array, rewards: Array, weights: Array) -> Layers:
        layers = [tuple(torch.tensor(array, requires_grad=True) for array in layer) for layer in self._start]
        optimizer = torch.optim.Adam([tensor for layer in layers for tensor in layer], lr=self.rate)
        x, y, w = (torch.from_numpy(array) for array in (rows, rewards, weights / weights.mean()))
        batches = generator_at(0, RESAMPLING).integers(len(rows), size=(self.steps, self.batch))
        for batch in torch.from_numpy(batches):
            units = x[batch]
            for matrix, offsets in layers[:-1]:
                units = torch.tanh(units @ matrix + offsets)
            matrix, offsets = layers[-1]
            loss = (w[batch] * ((units @ matrix)[:, 0] + offsets[0] - y[batch]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [(matrix.detach().numpy(), offsets.detach().numpy()) for matrix, offsets in layers]

    def dump(self, model: Any) -> bytes:
        return b"".join(array.tobytes() for layer in model for array in layer)

    def load(self, data: bytes) -> Any:
        numbers, layers, start = np.frombuffer(data), [], 0
        for size in self._sizes:
            middle, end = start + size[0] * size[1], start + (size[0] + 1) * size[1]
            layers.append((numbers[start:middle].reshape(size), numbers[middle:end]))
            start = end
        return layers
