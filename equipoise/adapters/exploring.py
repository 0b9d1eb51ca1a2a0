"""Exploring: a learner made of a regression of another library and a rule of exploration.

The regression scores every offered action; scores are clipped to the reward range. The exploration turns them into
probabilities, from which the action is drawn, so propensities are exact.
"""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np

from equipoise.adapters._core.outside import MatrixLearner
from equipoise.adapters.explorations import EXPLORATIONS, Epsilon, Exploration, named_part, plain_part
from equipoise.adapters.model import Model
from equipoise.adapters.models import MODELS
from equipoise.errors import EquipoiseError
from equipoise.learner import Proposal
from equipoise.settings import configurable, setting
from equipoise.types import Action, Array, Context, State


def _model(name: str, value: object) -> Model:
    model: Model = named_part(name, value, Model, MODELS)
    return model


def _exploration(name: str, value: object) -> Exploration:
    exploration: Exploration = Epsilon() if value is None else named_part(name, value, Exploration, EXPLORATIONS)
    return exploration


@configurable
class Exploring(MatrixLearner):
    """A regression of another library with a rule of exploration.

    A context is a K x d matrix with one offered action per row; K may change from round to round.

    Parameters
    ----------
    model
        The regression: `Sklearn`, `LightGBM`, `XGBoost` or `River`, or {"class": name, ...} with its settings. The
        learner uses a copy in its initial state.
    exploration
        `Epsilon`, `Softmax` or `InverseGap`, or {"class": name, ...} with its settings. Default: Epsilon(0.1).
    reward_range
        Interval (low, high) that contains all rewards. Default: (0, 1).
    seed
        Seed of the learner's own random stream, which is used when `decide` is given no generator. Default: 0.
    name
        Name of the learner in tables and certificates. Default: made from the other settings.
    """

    model: Model = setting(check=_model, encode=plain_part, kw_only=False)
    exploration: Exploration = setting(default=None, check=_exploration, encode=plain_part, kw_only=False)

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"greedy", "value", "pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        self._dim = self.model.dim
        self._model = self.model.clone()
        self._model.open(self.reward_range)
        self._n_lessons = 0

    def default_name(self) -> str:
        return f"{self.model.describe()} {self.exploration!r}"

    def pmf(self, context: Context) -> Array:
        """The probability of every offered action; sums to 1."""
        return self._probabilities(*self._scores(self.check_context(context)))

    def _propose(self, context: Array, rng: np.random.Generator) -> Proposal:
        scores, greedy = self._scores(context)
        lesson, limits = self._n_lessons + 1, self.reward_range
        action, probability = self.exploration.draw(scores, greedy, lesson, limits, rng.random())
        return Proposal(action, -inf, nan, probability, greedy, float(scores[action]))

    def _scores(self, actions: Array) -> tuple[Array, int]:
        """The scores of the actions within the reward range, and the action of the highest."""
        low, high = self.reward_range
        scores = np.minimum(np.maximum(self._model.scores(actions), low), high)
        greedy = int(scores.argmax())
        if isnan(scores[greedy]):  # argmax finds any nan
            raise EquipoiseError(f"the model of {self.name!r} predicts nan: scale the features or slow it down")
        return scores, greedy

    def _probabilities(self, scores: Array, greedy: int) -> Array:
        return self.exploration.pmf(scores, greedy, self._n_lessons + 1, self.reward_range)

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        actions, position = self.check_offered(context, action)
        number = self.check_reward(reward, weight)
        if weight > 0.0:
            self._model.learn(actions[position], number, float(weight))
            self._n_lessons += 1

    def _learned(self) -> State:
        own = {f"model.{name}": array for name, array in self._model.state().items()}
        return {"n_lessons": np.array([self._n_lessons]), **own}

    def _set_learned(self, learned: State) -> None:
        prefix = "model."
        self._model.restore({name.removeprefix(prefix): learned[name] for name in learned if name.startswith(prefix)})
        self._n_lessons = int(learned["n_lessons"][0])
