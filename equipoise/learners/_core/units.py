"""Units of rewards: a learner's range and noise, its own or those of the portfolio that it belongs to.

A range or noise that is not stated (None) is the portfolio's, which calls `configure` once, before any lesson. Alone it
is the range (0, 1), and noise of half the range, which holds for all rewards in the range (Hoeffding's lemma).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any

import numpy as np

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.settings import Configured, configurable, equal_data, optional, setting
from equipoise.settings.checks import interval, positive
from equipoise.types import State

DEFAULT_RANGE = (0.0, 1.0)


class Units(Configured):
    """What learners with a range, a noise, both or neither have in common."""

    _unstated: frozenset[str] = frozenset()  # settings that are the portfolio's
    _adopted: Mapping[str, Any] = {}  # what the portfolio said about them, if it differs from the defaults

    def configure(self, *, reward_range: tuple[float, float] | None = None, noise: float | None = None) -> None:
        """Adopt the range and noise of a portfolio, where the learner states none; called before any lesson.

        Raises an error, and changes nothing, if the learner states others, or if it has learned in other units.

        Parameters
        ----------
        reward_range
            Interval (low, high) that contains all rewards of the portfolio; None if it states none.
        noise
            Sub-Gaussian factor of the reward noise; None for half the range.
        """
        said = {
            "reward_range": optional(interval)("reward_range", reward_range),
            "noise": optional(positive)("noise", noise),
        }
        if said["noise"] is None and said["reward_range"] is not None and not hasattr(self, "reward_range"):
            low, high = said["reward_range"]
            said["noise"] = (high - low) / 2 if "noise" in self._unstated else None
        adopted = {}
        for name, value in said.items():
            if value is None or not hasattr(self, name):
                continue
            if name in self._unstated:
                adopted[name] = value
            elif value != getattr(self, name):
                raise IncompatibleLearner(
                    f"{name} of learner {self._label()} is {getattr(self, name)}, but that of the portfolio is "
                    f"{value}: leave it out at the learner, or state the same"
                )
        self._adopt(adopted)

    def _adopt(self, adopted: Mapping[str, Any]) -> None:
        configured = self._with_units(adopted)
        if all(getattr(configured, name) == getattr(self, name) for name in self._unstated):
            return
        if hasattr(self, "state") and not equal_data(self.state(), self.clone()._with_units(self._adopted).state()):
            raise IncompatibleLearner(
                f"learner {self._label()} has learned from rewards in other units, but the portfolio says "
                f"{dict(adopted)}: state them at the learner, or give a new learner"
            )
        vars(self).update(vars(configured))

    def _with_units(self, adopted: Mapping[str, Any]) -> Any:
        """A new learner of the same settings in the units of a portfolio."""
        learner = self.clone()
        if not adopted:
            return learner
        for name in self._unstated:
            setattr(learner, name, adopted.get(name))
        learner._set_up()
        learner._unstated, learner._adopted = self._unstated, dict(adopted)
        return learner

    def _units_state(self) -> State:
        """The adopted units, as part of the state: they belong to what was learned in them."""
        return {f"units.{name}": np.atleast_1d(np.array(value)) for name, value in sorted(self._adopted.items())}

    def _in_units_of(self, state: State) -> Any:
        """The learner itself, or a new one if the units of a saved state are others."""
        units = {name: array for name, array in state.items() if name.startswith("units.")}
        if equal_data(units, self._units_state()):
            return self
        names = {name.removeprefix("units.") for name in units}
        if not names <= self._unstated:
            raise InvalidArgument(f"state has units of {sorted(names)}, but {self._label()} states its own")
        numbers = {name: array.tolist() for name, array in units.items()}
        adopted: dict[str, Any] = {}
        if "reward_range" in names:
            adopted["reward_range"] = interval("reward_range", numbers["units.reward_range"])
        if "noise" in names:
            adopted["noise"] = positive("noise", *numbers["units.noise"])
        return self._with_units(adopted)

    def _label(self) -> str:
        return repr(getattr(self, "name", type(self).__name__))

    def _as_given(self, each: Field[Any]) -> Any:
        return None if each.name in self._unstated else super()._as_given(each)


@configurable
class Ranged(Units):
    """The interval that contains rewards, or expected rewards."""

    reward_range: tuple[float, float] = setting(default=None, check=optional(interval))

    def _set_up(self) -> None:
        super()._set_up()
        if self.reward_range is None:
            self._unstated |= {"reward_range"}
            self.reward_range = DEFAULT_RANGE


@configurable
class Noisy(Units):
    """The sub-Gaussian factor of the reward noise."""

    noise: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        super()._set_up()
        if self.noise is None:
            low, high = getattr(self, "reward_range", DEFAULT_RANGE)
            self._unstated |= {"noise"}
            self.noise = (high - low) / 2
