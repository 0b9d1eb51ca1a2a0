"""Neural-linear: Thompson sampling by linear regression on the features that a neural network has learned.

The last hidden layer of a `Network` maps each offered action to features, and a ridge regression on them, which learns
from each update at once, explores: a decision draws a parameter from its posterior, as `LinearThompson` does, from
fixed vectors, so that `pmf` is exact. When a new fit of the network takes effect, the regression starts again and
learns the updates of the window with the new features.

Reference: Riquelme, Tucker and Snoek (2018), "Deep Bayesian bandits showdown", section 4 (NeuralLinear).
Symbols: theta and Sigma as in `ridge`; the features have norm at most 1, a constant included.
Departures: rewards count as shares of their range with a standard deviation of 1/2, the largest that they can have,
times `scale`, in place of one drawn from a posterior. No bound holds, as the features are learned from the same data.
"""

from __future__ import annotations

from functools import partial
from math import inf, nan, sqrt

import numpy as np

from equipoise.adapters._core.modeled import ModelLearner, plain_part
from equipoise.adapters.models import Network
from equipoise.learner import Proposal
from equipoise.learners._core.base import arrays_of
from equipoise.learners._core.ridge import new_ridge, predict, restart, update
from equipoise.learners.linear_thompson import best_action_for, directions_of, shares_of_best
from equipoise.settings import configurable, named_part, setting
from equipoise.settings.checks import positive
from equipoise.types import Action, Array, Context, State

NOISE = 0.5  # standard deviation of a share


@configurable
class NeuralLinear(ModelLearner):
    """Thompson sampling by ridge regression on the last layer of a neural network of torch.

    A context is `Offers`, or a K x d matrix with one offered action per row; K may change from round to round.
    """

    model: Network = setting(
        'The network, a `Network`, or {"class": "Network", ...} with its settings.',
        partial(named_part, base=Network, classes={"Network": Network}),
        encode=plain_part,
        kw_only=False,
    )
    scale: float = setting("Factor of the deviation of the sampled parameter, positive.", positive, default=0.3)
    regularization: float = setting("Ridge penalty lambda, positive.", positive, default=0.1)

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"greedy", "value", "pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        self._model = self.model.with_dim(self._dim)
        self._model.open()
        self._directions = directions_of(self.model.width + 1)
        self._ridge = new_ridge(self.model.width + 1, self.regularization)

    def default_name(self) -> str:
        return f"NeuralLinear(width={self.model.width})"

    def _features(self, rows: Array) -> Array:
        units = self._model.features(rows)
        return np.hstack([units, np.ones((len(rows), 1))]) / sqrt(units.shape[1] + 1)

    def _pmf(self, rows: Array) -> Array:
        return shares_of_best(self._directions, self._ridge, self.scale * NOISE, self._features(rows))

    def _propose_row(self, rows: Array, rng: np.random.Generator) -> Proposal:
        rows, (low, high) = self._features(rows), self.reward_range
        drawn = self._directions[int(rng.random() * len(self._directions))]
        action = best_action_for(drawn, self._ridge, self.scale * NOISE, rows)
        means = predict(self._ridge, rows)
        value = low + (high - low) * min(max(float(means[action]), 0.0), 1.0)
        return Proposal(action, -inf, nan, nan, int(means.argmax()), value)  # its probability, by `pmf`, takes longer

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        row, _ = self._reader.row(context, action)
        target = self.target(self._model, self.check_reward(reward, weight))
        if weight <= 0.0:
            return
        n_fits = self._model.n_fits
        self._model.learn(row, target, float(weight))
        if self._model.n_fits == n_fits:
            self._learn_rows(row[None], np.array([target]), np.array([float(weight)]))
        else:
            restart(self._ridge, self.regularization)
            self._learn_rows(*self._model.updates())

    def _learn_rows(self, rows: Array, targets: Array, weights: Array) -> None:
        for row, target, weight in zip(self._features(rows), targets.tolist(), weights.tolist(), strict=True):
            update(self._ridge, row, 0.5 + 0.5 * target, weight)

    def _learned(self) -> State:
        network = {f"network.{name}": array for name, array in self._model.state().items()}
        return {**network, **{f"ridge.{name}": array.copy() for name, array in arrays_of(self._ridge)}}

    def _set_learned(self, learned: State) -> None:
        self._model.restore({name: learned[f"network.{name}"] for name in self._model.state()})
        for name, array in arrays_of(self._ridge):
            array[...] = learned[f"ridge.{name}"]
