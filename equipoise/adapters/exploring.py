"""Exploring: a learner made of a regression of another library and a rule of exploration.

The regression scores every offered action, in units of half the reward range. The exploration turns the scores, as
shares of the reward range clipped to [0, 1], into probabilities, from which the action is drawn, so propensities are
exact.

`Epsilon`: Sutton and Barto (2018), "Reinforcement learning: an introduction", section 2.4. `Softmax`: section 2.8 of
the same, with the scores as preferences. `InverseGap`: Foster and Rakhlin (2020), "Beyond UCB: optimal and efficient
contextual bandits with regression oracles", algorithm 1 (SquareCB).
"""

from __future__ import annotations

from functools import partial
from math import inf, nan

import numpy as np

from equipoise.adapters._core.modeled import ModelLearner, plain_part, shares
from equipoise.adapters._core.outside import draw
from equipoise.adapters.model import Model
from equipoise.adapters.models import MODELS
from equipoise.learner import Proposal
from equipoise.learners.square_cb import inverse_gap_weights
from equipoise.settings import Configured, configurable, named_part, setting
from equipoise.settings.checks import fraction, positive
from equipoise.types import Action, Array, Context, State


class Exploration(Configured):
    """How scores become probabilities."""

    def pmf(self, scores: Array, greedy: int, update: int) -> Array:
        """The probability of every action.

        `scores` are the estimated rewards of the offered actions as shares of the reward range, in [0, 1]; `greedy` is
        the action of the highest, and `update` the number of the update that would be learned next, from 1.
        """
        raise NotImplementedError  # abstract

    def draw(self, scores: Array, greedy: int, update: int, number: float) -> tuple[int, float]:
        """The action of a uniform number in [0, 1), and its probability; the other arguments are those of `pmf`."""
        probabilities = self.pmf(scores, greedy, update).tolist()
        action = draw(probabilities, greedy, number)
        return action, probabilities[action]


@configurable
class Epsilon(Exploration):
    """The greedy action, or with probability `epsilon` an action drawn uniformly, the greedy one included.

    Examples
    --------
    >>> import numpy as np
    >>> Epsilon(0.3).pmf(np.array([0.2, 0.7, 0.1]), greedy=1, update=1).round(3).tolist()
    [0.1, 0.8, 0.1]
    """

    epsilon: float = setting("Probability of exploration, in [0, 1].", fraction, default=0.1, kw_only=False)

    def pmf(self, scores: Array, greedy: int, update: int) -> Array:
        probabilities = np.full(len(scores), self.epsilon / len(scores))
        probabilities[greedy] += 1.0 - self.epsilon
        return probabilities

    def draw(self, scores: Array, greedy: int, update: int, number: float) -> tuple[int, float]:
        # As the general one, without arrays: the calls of a round that is this short are what it costs.
        n_actions = len(scores)
        each = self.epsilon / n_actions
        best = each + (1.0 - self.epsilon)
        beyond = number - (greedy * each + best)
        if number >= greedy * each and beyond < 0.0:
            return greedy, best
        action = int(number / each) if beyond < 0.0 else greedy + 1 + int(beyond / each)
        return (action, each) if action < n_actions and action != greedy else (greedy, best)


@configurable
class Softmax(Exploration):
    """Action a with probability proportional to exp(score_a / temperature).

    Examples
    --------
    >>> import numpy as np
    >>> Softmax(0.5).pmf(np.array([0.0, 0.5, 1.0]), greedy=2, update=1).round(3).tolist()
    [0.09, 0.245, 0.665]
    """

    temperature: float = setting(
        "Temperature as a share of the reward range, positive; lower values explore less.",
        positive,
        default=0.1,
        kw_only=False,
    )

    def pmf(self, scores: Array, greedy: int, update: int) -> Array:
        weights: Array = np.exp((scores - scores[greedy]) / self.temperature)
        weights /= weights.sum()
        return weights


@configurable
class InverseGap(Exploration):
    """Inverse gap weighting: 1 / (K + gamma gap_a) for every action but the greedy one, which has the remainder.

    A gap is the difference to the greedy action's score, and gamma is `scale` times the number of the update to the
    power `exponent`.

    Examples
    --------
    >>> import numpy as np
    >>> InverseGap(5.0).pmf(np.array([0.5, 0.1]), greedy=0, update=4).round(3).tolist()
    [0.833, 0.167]
    """

    scale: float = setting(
        "Factor of gamma, positive; larger values explore less.", positive, default=10.0, kw_only=False
    )
    exponent: float = setting("Growth of gamma with the updates, in [0, 1].", fraction, default=0.5)

    def pmf(self, scores: Array, greedy: int, update: int) -> Array:
        return inverse_gap_weights(scores, greedy, self.scale * update**self.exponent, 1.0)


EXPLORATIONS: dict[str, type[Exploration]] = {cls.__name__: cls for cls in (Epsilon, Softmax, InverseGap)}


def _exploration(name: str, value: object) -> Exploration:
    exploration: Exploration = named_part(name, Epsilon() if value is None else value, Exploration, EXPLORATIONS)
    return exploration


@configurable
class Exploring(ModelLearner):
    """A regression of another library with a rule of exploration.

    A context is `Offers`, or a K x d matrix with one offered action per row; K may change from round to round.
    """

    model: Model = setting(
        'The regression: `Sklearn`, `LightGBM`, `XGBoost` or `River`, or {"class": name, ...} with its '
        "settings. The learner uses a copy in its initial state.",
        partial(named_part, base=Model, classes=MODELS),
        encode=plain_part,
        kw_only=False,
    )
    exploration: Exploration = setting(
        '`Epsilon`, `Softmax` or `InverseGap`, or {"class": name, ...} with its settings. Default: Epsilon(0.1).',
        _exploration,
        default=None,
        encode=plain_part,
        kw_only=False,
    )

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"greedy", "value", "pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        self._model = self.model.with_dim(self._dim)
        self._model.open()
        self._n_updates = 0

    def _n_features(self) -> int | None:
        return self.model.dim

    def default_name(self) -> str:
        return f"{self.model.describe()} {self.exploration!r}"

    def _pmf(self, rows: Array) -> Array:
        scores, greedy = self._scores(rows)
        return self.exploration.pmf(scores, greedy, self._n_updates + 1)

    def _propose_row(self, rows: Array, rng: np.random.Generator) -> Proposal:
        scores, greedy = self._scores(rows)
        action, probability = self.exploration.draw(scores, greedy, self._n_updates + 1, rng.random())
        low, high = self.reward_range
        return Proposal(action, -inf, nan, probability, greedy, low + (high - low) * float(scores[action]))

    def _scores(self, actions: Array) -> tuple[Array, int]:
        """The scores of the actions as shares of the reward range, and the action of the highest."""
        scores = shares(self.scores(self._model, actions))
        return scores, int(scores.argmax())

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        row, _ = self._reader.row(context, action)
        target = self.target(self._model, self.check_reward(reward, weight))
        if weight > 0.0:
            self._model.learn(row, target, float(weight))
            self._n_updates += 1

    def _learned(self) -> State:
        own = {f"model.{name}": array for name, array in self._model.state().items()}
        return {"n_updates": np.array([self._n_updates]), **own}

    def _set_learned(self, learned: State) -> None:
        prefix = "model."
        self._model.restore({name.removeprefix(prefix): learned[name] for name in learned if name.startswith(prefix)})
        self._n_updates = int(learned["n_updates"][0])
