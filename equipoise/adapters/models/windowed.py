"""Base class of models that are fitted again from time to time on a window of the last updates.

After update n, a multiple of `every`, a fit starts in another thread on a copy of the window. The fitted model takes
effect right after update n + `lag`, which waits for it if it is late. So the model in use depends on the updates alone,
and replays and resumed runs are exact.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from equipoise.adapters._core.outside import as_array
from equipoise.adapters.model import Model
from equipoise.errors import InvalidArgument, require
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Array, State


@cache
def _pool() -> ThreadPoolExecutor:
    """One thread for all fits of the process, which leaves the other cores to requests."""
    return ThreadPoolExecutor(1, thread_name_prefix="equipoise-fit")


@configurable
class WindowedModel(Model):
    """A model that is fitted on a window of the last updates. Subclasses implement `fit`, `load`, `dump`, `predict`."""

    window: int = setting(
        "Number of latest updates that a fit uses.", partial(count, maximum=10_000_000), default=2_048
    )
    every: int = setting("Number of updates between fits.", count, default=256)
    lag: int = setting("Number of updates after which a fit takes effect, at most `every`.", count, default=64)

    library: ClassVar[str]  # the package that fits

    def open(self) -> None:
        require(f"a model {type(self).__name__}", self.library)
        if self.lag > self.every:
            raise InvalidArgument(f"lag is {self.lag}, but must be at most every = {self.every}")
        self._rows = np.zeros((self.window, self.n_features))
        self._rewards, self._weights = np.zeros(self.window), np.zeros(self.window)
        self._n_updates = 0
        self._model: Any = None  # in use; None before the first fit
        self._fit: Future[Any] | None = None  # takes effect later

    def fit(self, rows: Array, rewards: Array, weights: Array) -> Any:
        """A model that is fitted on these updates; runs in another thread."""
        raise NotImplementedError  # abstract

    def load(self, data: bytes) -> Any:
        raise NotImplementedError  # abstract

    def dump(self, model: Any) -> bytes:
        """The bytes of a model; those that it was loaded from."""
        raise NotImplementedError  # abstract

    def predict(self, model: Any, rows: Array) -> Array:
        raise NotImplementedError  # abstract

    def scores(self, rows: Array) -> Array:
        return np.zeros(len(rows)) if self._model is None else self.predict(self._model, rows)

    def learn(self, row: Array, reward: float, weight: float) -> None:
        position = self._n_updates % self.window
        self._rows[position], self._rewards[position], self._weights[position] = row, reward, weight
        self._n_updates += 1
        since_start = self._n_updates % self.every
        if since_start == self.lag % self.every and self._fit is not None:
            self._model, self._fit = self._fit.result(), None
        if since_start == 0:
            self._fit = _pool().submit(self._fit_and_load, *self.updates())

    def updates(self) -> tuple[Array, Array, Array]:
        """Copies of the rows, rewards and weights in the window."""
        used = slice(min(self._n_updates, self.window))
        return self._rows[used].copy(), self._rewards[used].copy(), self._weights[used].copy()

    def _fit_and_load(self, rows: Array, rewards: Array, weights: Array) -> Any:
        # Loaded from its bytes, the model is the same object that a resumed run would have.
        return self.load(self.dump(self.fit(rows, rewards, weights)))

    def state(self) -> State:
        coming = None if self._fit is None else self._fit.result()
        return {
            "rows": self._rows.copy(),
            "rewards": self._rewards.copy(),
            "weights": self._weights.copy(),
            "n_updates": np.array([self._n_updates]),
            "model": as_array(b"" if self._model is None else self.dump(self._model)),
            "coming": as_array(b"" if coming is None else self.dump(coming)),
        }

    def restore(self, state: State) -> None:
        model, coming = (self.load(state[name].tobytes()) if len(state[name]) else None for name in ("model", "coming"))
        for own, name in ((self._rows, "rows"), (self._rewards, "rewards"), (self._weights, "weights")):
            own[...] = state[name]
        self._n_updates = int(state["n_updates"][0])
        self._model, self._fit = model, None
        if coming is not None:
            self._fit = Future()
            self._fit.set_result(coming)
