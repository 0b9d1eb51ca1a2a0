"""Units of rewards: range and noise of a learner or selector, its own or those of the portfolio that it belongs to.

A range or noise that is not stated (None) is the portfolio's, which calls `configure` once, before the first round.
Alone it is the range (0, 1). The noise of a learner is then half the range, which holds for all rewards in the range
(Hoeffding's lemma); a selector without noise uses the range itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any

import numpy as np

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.settings import Configured, configurable, equal_data, optional, setting
from equipoise.settings.checks import interval, positive
from equipoise.types import AnyArray, State

DEFAULT_RANGE = (0.0, 1.0)


class Units(Configured):
    """What parts with a range, a noise, both or neither have in common."""

    _kind = "learner"  # what it is, in messages
    _refusal: type[InvalidArgument] = IncompatibleLearner
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
        self._adopt(self._agreed(reward_range, noise))

    def _agreed(self, reward_range: tuple[float, float] | None, noise: float | None) -> dict[str, Any]:
        """What to adopt of what the portfolio says; raises an error if it contradicts what is stated."""
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
                raise self._refusal(
                    f"{name} of {self._label()} is {getattr(self, name)}, but that of the portfolio is {value}: leave "
                    f"it out at the {self._kind}, or state the same"
                )
        return adopted

    def states(self, name: str) -> bool:
        """Whether a range or noise is its own, not the portfolio's."""
        return hasattr(self, name) and name not in self._unstated

    def check_units(self, reward_range: tuple[float, float] | None = None, noise: float | None = None) -> None:
        """Raise what `configure` would raise, and change nothing."""
        self._in_units(self._agreed(reward_range, noise))

    def _adopt(self, adopted: Mapping[str, Any]) -> None:
        configured = self._in_units(adopted)
        if configured is not None:
            vars(self).update(vars(configured))

    def _in_units(self, adopted: Mapping[str, Any]) -> Any:
        """A new object in these units; None if they are those that it has."""
        configured = self._with_units(adopted)
        if all(getattr(configured, name) == getattr(self, name) for name in self._unstated):
            return None
        self._check_untaught(adopted)
        return configured

    def _check_untaught(self, adopted: Mapping[str, Any]) -> None:
        if hasattr(self, "state") and not equal_data(self.state(), self.clone()._with_units(self._adopted).state()):
            raise self._refusal(
                f"{self._label()} has learned from rewards in other units, but the portfolio says {dict(adopted)}: "
                f"state them at the {self._kind}, or give a new one"
            )

    def _with_units(self, adopted: Mapping[str, Any]) -> Any:
        """A new object of the same settings in the units of a portfolio."""
        part = self.clone()
        part._adopted = dict(adopted)
        if adopted:
            for name in self._unstated:
                setattr(part, name, adopted.get(name))
            part._set_up()
            part._unstated = self._unstated
        return part

    def _units_state(self) -> State:
        """The adopted units, as part of the state: they belong to what was learned in them."""
        return {f"units.{name}": np.atleast_1d(np.array(value)) for name, value in sorted(self._adopted.items())}

    def _in_units_of(self, state: State) -> Any:
        """The object itself, or a new one if the units of a saved state are others."""
        adopted = self._units_from(state)
        return self if equal_data(adopted, self._adopted) else self._with_units(adopted)

    def _units_from(self, state: Mapping[str, AnyArray]) -> dict[str, Any]:
        """The adopted units that a saved state has; raises an error if they cannot be that."""
        units = {name: np.asarray(array) for name, array in state.items() if name.startswith("units.")}
        names = {name.removeprefix("units.") for name in units}
        if not names <= self._unstated:
            raise InvalidArgument(f"state has units of {sorted(names)}, but {self._label()} states its own")
        numbers = {name: array.tolist() for name, array in units.items()}
        adopted: dict[str, Any] = {}
        if "reward_range" in names:
            adopted["reward_range"] = interval("reward_range", numbers["units.reward_range"])
        if "noise" in names:
            adopted["noise"] = positive("noise", *numbers["units.noise"])
        return adopted

    def _label(self) -> str:
        return f"{self._kind} {getattr(self, 'name', type(self).__name__)!r}"

    def _leave_unstated(self, name: str, alone: Any) -> None:
        """Mark a setting as the portfolio's if it is None; without a portfolio it is `alone`."""
        if getattr(self, name) is None:
            self._unstated |= {name}
            setattr(self, name, alone)

    def _as_given(self, each: Field[Any]) -> Any:
        return None if each.name in self._unstated else super()._as_given(each)


@configurable
class Ranged(Units):
    """The interval that contains rewards, or expected rewards."""

    reward_range: tuple[float, float] = setting(default=None, check=optional(interval))

    def _set_up(self) -> None:
        super()._set_up()
        self._leave_unstated("reward_range", DEFAULT_RANGE)


@configurable
class Noisy(Units):
    """The sub-Gaussian factor of the reward noise."""

    noise: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        super()._set_up()
        low, high = getattr(self, "reward_range", DEFAULT_RANGE)
        self._leave_unstated("noise", (high - low) / 2)
