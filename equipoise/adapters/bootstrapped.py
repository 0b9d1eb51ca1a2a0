"""Bootstrapped Thompson sampling: a committee of models, each of which has seen its own resample of the updates.

Each update reaches every member of the committee with a random weight of mean 1, from Poisson(1) or 0 or 2 with equal
probability ("double or nothing"): the online bootstrap. A decision draws a member uniformly and plays the action with
its highest score; actions with exactly the same score share the draw equally. The spread of the members stands for the
uncertainty of the model, so exploration needs no widths, whatever the model is. The probability of an action is the
share of the members that would play it, so `pmf` is exact.

Weights are a function of the seed and of the number of the update, so that saved, resumed and replayed learners agree.

References: Eckles and Kaptein (2014), "Thompson sampling with the online bootstrap", algorithm 1 (double or nothing);
Oza (2001), "Online bagging and boosting" (Poisson weights); Osband and Van Roy (2015), "Bootstrapped Thompson sampling
and deep exploration".
Departures: no artificial history; before their first updates the members score all actions alike and play uniformly.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from math import exp, factorial, inf, nan

import numpy as np

from equipoise.adapters._core.modeled import ModelLearner, plain_part, shares
from equipoise.adapters.model import Model
from equipoise.adapters.models import MODELS
from equipoise.kernels.streams import RESAMPLING, generator_at
from equipoise.learner import Proposal
from equipoise.settings import configurable, named_part, setting
from equipoise.settings.checks import count, one_of
from equipoise.types import Action, Array, Context, State

# The probability that a weight is at most 0, 1, ..., up to where it rounds to 1.
DISTRIBUTIONS = {
    "poisson": np.array(list(accumulate(exp(-1) / factorial(k) for k in range(18)))),
    "double": np.array([0.5, 0.5, 1.0]),
}


@configurable
class Bootstrapped(ModelLearner):
    """Thompson sampling by a committee of models on resampled updates.

    A context is `Offers`, or a K x d matrix with one offered action per row; K may change from round to round.
    """

    model: Model = setting(
        'The model of each member, as for `Exploring`: `Sklearn`, `River`, ..., or {"class": name, ...}.',
        partial(named_part, base=Model, classes=MODELS),
        encode=plain_part,
        kw_only=False,
    )
    members: int = setting("Number of members.", partial(count, maximum=1_000), default=10, kw_only=False)
    weights: str = setting(
        'Law of the weights of updates: "poisson", or "double" for 0 or 2.',
        partial(one_of, options=tuple(DISTRIBUTIONS)),
        default="poisson",
    )

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"greedy", "value", "pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        self._models = [self.model.with_dim(self._dim) for _ in range(self.members)]
        for model in self._models:
            model.open()
        self._n_updates = 0

    def default_name(self) -> str:
        return f"{self.model.describe()} x {self.members}"

    def _pmf(self, rows: Array) -> Array:
        probabilities: Array = self._votes(self._all_scores(rows)).mean(axis=0)
        return probabilities

    def _propose_row(self, rows: Array, rng: np.random.Generator) -> Proposal:
        scores = self._all_scores(rows)
        votes, means = self._votes(scores), shares(scores).mean(axis=0)
        drawn = rng.random() * self.members
        member = int(drawn)
        tied = np.flatnonzero(votes[member])
        action = int(tied[int((drawn - member) * len(tied))])
        low, high = self.reward_range
        value = low + (high - low) * float(means[action])
        return Proposal(action, -inf, nan, float(votes[:, action].mean()), int(means.argmax()), value)

    def _all_scores(self, rows: Array) -> Array:
        """The scores of every action, a row for each member."""
        return np.array([self.scores(model, rows) for model in self._models])

    def _votes(self, scores: Array) -> Array:
        """The probability of every action if the member is drawn, a row for each member."""
        best = scores == scores.max(axis=1, keepdims=True)
        votes: Array = best / best.sum(axis=1, keepdims=True)
        return votes

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        row, _ = self._reader.row(context, action)
        target = self.target(self._models[0], self.check_reward(reward, weight))
        if weight > 0.0:
            for model, copies in zip(self._models, self._copies(), strict=True):
                if copies:
                    model.learn(row, target, float(weight) * copies)
            self._n_updates += 1

    def _copies(self) -> list[int]:
        """The weight of the next update for each member."""
        numbers = generator_at(self.seed, RESAMPLING, self._n_updates).random(self.members)
        copies: list[int] = np.searchsorted(DISTRIBUTIONS[self.weights], numbers, side="right").tolist()
        return copies

    def _learned(self) -> State:
        own = {f"{k}.{name}": array for k, model in enumerate(self._models) for name, array in model.state().items()}
        return {"n_updates": np.array([self._n_updates]), **own}

    def _set_learned(self, learned: State) -> None:
        for k, model in enumerate(self._models):
            prefix = f"{k}."
            model.restore({name[len(prefix) :]: learned[name] for name in learned if name.startswith(prefix)})
        self._n_updates = int(learned["n_updates"][0])
