"""Explorations: how a learner turns the scores of the offered actions into the probabilities with which it plays them.

`Epsilon`: Sutton and Barto (2018), "Reinforcement learning: an introduction", section 2.4. `Softmax`: section 2.8 of
the same, with the scores as preferences. `InverseGap`: Foster and Rakhlin (2020), "Beyond UCB: optimal and efficient
contextual bandits with regression oracles", algorithm 1 (SquareCB).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.adapters._core.outside import draw
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.learners.square_cb import inverse_gap_weights
from equipoise.settings import Configured, configurable, setting
from equipoise.settings.checks import fraction, positive
from equipoise.types import Array, Config


class Exploration(Configured):
    """How scores become probabilities."""

    def pmf(self, scores: Array, greedy: int, lesson: int, reward_range: tuple[float, float]) -> Array:
        """The probability of every action.

        Parameters
        ----------
        scores
            Estimated rewards of the offered actions, within the range.
        greedy
            The action of the highest score.
        lesson
            Number of the lesson that would be learned next, from 1.
        reward_range
            Interval (low, high) that contains all rewards.
        """
        raise NotImplementedError  # abstract

    def draw(
        self, scores: Array, greedy: int, lesson: int, reward_range: tuple[float, float], number: float
    ) -> tuple[int, float]:
        """The action of a uniform number in [0, 1), and its probability; the other arguments are those of `pmf`."""
        probabilities = self.pmf(scores, greedy, lesson, reward_range).tolist()
        action = draw(probabilities, greedy, number)
        return action, probabilities[action]


@configurable
class Epsilon(Exploration):
    """The greedy action, or with probability `epsilon` an action drawn uniformly, the greedy one included.

    Parameters
    ----------
    epsilon
        Probability of exploration, in [0, 1]. Default: 0.1.

    Examples
    --------
    >>> import numpy as np
    >>> Epsilon(0.3).pmf(np.array([0.2, 0.7, 0.1]), greedy=1, lesson=1, reward_range=(0, 1)).round(3).tolist()
    [0.1, 0.8, 0.1]
    """

    epsilon: float = setting(default=0.1, check=fraction, kw_only=False)

    def pmf(self, scores: Array, greedy: int, lesson: int, reward_range: tuple[float, float]) -> Array:
        probabilities = np.full(len(scores), self.epsilon / len(scores))
        probabilities[greedy] += 1.0 - self.epsilon
        return probabilities

    def draw(
        self, scores: Array, greedy: int, lesson: int, reward_range: tuple[float, float], number: float
    ) -> tuple[int, float]:
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

    Parameters
    ----------
    temperature
        Temperature in units of rewards, positive; lower values explore less. Default: 0.1.

    Examples
    --------
    >>> import numpy as np
    >>> Softmax(1.0).pmf(np.log([0.2, 0.7, 0.1]), greedy=1, lesson=1, reward_range=(-9, 0)).round(3).tolist()
    [0.2, 0.7, 0.1]
    """

    temperature: float = setting(default=0.1, check=positive, kw_only=False)

    def pmf(self, scores: Array, greedy: int, lesson: int, reward_range: tuple[float, float]) -> Array:
        weights: Array = np.exp((scores - scores[greedy]) / self.temperature)
        weights /= weights.sum()
        return weights


@configurable
class InverseGap(Exploration):
    """Inverse gap weighting: 1 / (K + gamma gap_a) for every action but the greedy one, which has the remainder.

    A gap is that to the greedy action's score, as a share of the reward range, and gamma is `scale` times the number of
    the lesson to the power `exponent`.

    Parameters
    ----------
    scale
        Factor of gamma, positive; larger values explore less. Default: 10.
    exponent
        Growth of gamma with the lessons, in [0, 1]. Default: 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> InverseGap(5.0).pmf(np.array([0.5, 0.1]), greedy=0, lesson=4, reward_range=(0, 1)).round(3).tolist()
    [0.833, 0.167]
    """

    scale: float = setting(default=10.0, check=positive, kw_only=False)
    exponent: float = setting(default=0.5, check=fraction)

    def pmf(self, scores: Array, greedy: int, lesson: int, reward_range: tuple[float, float]) -> Array:
        low, high = reward_range
        rate = self.scale * lesson**self.exponent / (high - low)
        return inverse_gap_weights(scores, greedy, rate, low, high)


EXPLORATIONS: dict[str, type[Exploration]] = {cls.__name__: cls for cls in (Epsilon, Softmax, InverseGap)}


def named_part(kind: str, value: Any, base: type[Any], registry: Mapping[str, type[Any]]) -> Any:
    """A part as an object, or from its plain form {"class": name, setting: value, ...}."""
    if isinstance(value, base):
        return value
    if not isinstance(value, Mapping) or "class" not in value:
        raise InvalidArgument(f"{kind} is {value!r:.80}, but must be one of {', '.join(registry)}")
    name = value["class"]
    if name not in registry:
        raise UnknownName(kind, str(name), registry)
    return registry[name].from_config({key: item for key, item in value.items() if key != "class"})


def plain_part(part: Configured) -> Config:
    """The plain form of a part."""
    return {"class": type(part).__name__, **part.config()}
