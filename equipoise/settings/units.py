"""Units of rewards: range and noise of a learner or selector, its own or those of the portfolio that it belongs to.

A range or noise that is not stated (None) is the portfolio's, which calls `configure` once, before the first round.
Alone it is the range (0, 1). The noise of a learner is then half the range, which holds for all rewards in the range
(Hoeffding's lemma); a selector without noise uses the range itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.settings import equal_data, optional, setting
from equipoise.settings.checks import interval, positive
from equipoise.types import AnyArray, State

DEFAULT_RANGE = (0.0, 1.0)
UNITS = ("reward_range", "noise")

range_setting = partial(
    setting,
    default=None,
    check=optional(interval),
    doc="Interval (low, high) that contains all expected rewards. Default: the portfolio's, or (0, 1).",
)
rewards_setting = partial(
    range_setting, doc="Interval (low, high) that contains all rewards. Default: the portfolio's, or (0, 1)."
)
noise_setting = partial(
    setting,
    default=None,
    check=optional(positive),
    doc=(
        "Sub-Gaussian factor of the reward noise, positive. Default: the portfolio's, or half the width of the reward "
        "range, which always suffices."
    ),
)


class Units:
    """Range and noise of a configurable class with a setting for the range, the noise, both or neither."""

    name: str
    reward_range: tuple[float, float]
    _unstated: frozenset[str]  # settings that are the portfolio's
    _kind = "learner"  # what it is, in messages
    _refusal: type[InvalidArgument] = IncompatibleLearner
    _adopted: Mapping[str, Any] = {}  # what the portfolio said about them, if it differs from the defaults

    def configure(self, *, reward_range: tuple[float, float] | None = None, noise: float | None = None) -> None:
        """Adopt the range and noise of a portfolio, where the learner states none; called before any update.

        Raises an error, and changes nothing, if the learner states others, or if it has learned in other units. A range
        of None means that the portfolio states none; a noise of None stands for half the range.
        """
        self._adopt(self._agreed(reward_range, noise))

    def _agreed(self, reward_range: tuple[float, float] | None, noise: float | None) -> dict[str, Any]:
        """What to adopt of what the portfolio says; raises an error if it contradicts what is stated."""
        said = {
            "reward_range": optional(interval)("reward_range", reward_range),
            "noise": optional(positive)("noise", noise),
        }
        own = self._own_units()
        return agreed_units(said, own, self._unstated, self._label(), self._kind, self._refusal)

    def _own_units(self) -> dict[str, Any]:
        """The range and noise, as far as the class has them."""
        return {name: getattr(self, name) for name in UNITS if hasattr(self, name)}

    def states(self, name: str) -> bool:
        """Whether a range or noise is its own, not the portfolio's."""
        return name in self._own_units() and name not in self._unstated

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
        self._check_no_updates(adopted)
        return configured

    def _check_no_updates(self: Any, adopted: Mapping[str, Any]) -> None:
        if not equal_data(self.state(), self._with_units(self._adopted).state()):
            raise self._refusal(
                f"{self._label()} has learned from rewards in other units, but the portfolio says {dict(adopted)}: "
                f"state them at the {self._kind}, or give a new one"
            )

    def anew(self, **changes: Any) -> Any:
        """A new object of the same settings but for `changes`, in the same units."""
        return self._with_units(self._adopted, **changes)

    def _with_units(self: Any, adopted: Mapping[str, Any], **changes: Any) -> Any:
        """A new object of the same settings but for `changes`, in the units of a portfolio."""
        part = self.clone(**changes)
        part.replace_units(adopted)
        return part

    def replace_units(self: Any, adopted: Mapping[str, Any]) -> None:
        """Take over the units of a portfolio and drop everything learned; those that are stated do not change."""
        self._adopted = dict(adopted)
        if adopted:
            unstated = self._unstated
            for name in unstated:
                setattr(self, name, adopted.get(name))
            self._set_up()
            self._unstated = unstated

    def _in_units_of(self, state: State) -> Any:
        """The object itself, or a new one if the units of a saved state are others."""
        adopted = read_units(state, self._unstated, self._label())
        return self if equal_data(adopted, self._adopted) else self._with_units(adopted)

    def _label(self) -> str:
        return f"{self._kind} {self.name!r}"

    def _leave_unstated(self, name: str, alone: Any) -> None:
        """Mark a setting as the portfolio's if it is None; without a portfolio it is `alone`."""
        if getattr(self, name) is None:
            self._unstated |= {name}
            setattr(self, name, alone)

    def _fill_in_units(self) -> None:
        """Give a learner the range and noise that it does not state: those without a portfolio."""
        own = self._own_units()
        if "reward_range" in own:
            self._leave_unstated("reward_range", DEFAULT_RANGE)
        if "noise" in own:
            low, high = self.reward_range
            self._leave_unstated("noise", (high - low) / 2)


def agreed_units(
    said: Mapping[str, Any],
    present: Mapping[str, Any],
    unstated: Collection[str],
    label: str,
    kind: str,
    refusal: type[InvalidArgument],
) -> dict[str, Any]:
    """Return the units to adopt of those that a portfolio says; raise an error if it contradicts a stated one.

    `present` are the units that the part has, of which it leaves the `unstated` ones to the portfolio.
    """
    adopted = {}
    for name, value in said.items():
        if value is None or name not in present:
            continue
        if name in unstated:
            adopted[name] = value
        elif value != present[name]:
            raise refusal(
                f"{name} of {label} is {present[name]}, but that of the portfolio is {value}: leave "
                f"it out at the {kind}, or state the same"
            )
    return adopted


def units_columns(adopted: Mapping[str, Any]) -> State:
    """Return adopted units as a part of a saved state: they belong to what was learned in them."""
    return {f"units.{name}": np.atleast_1d(np.array(value)) for name, value in sorted(adopted.items())}


def read_units(state: Mapping[str, AnyArray], unstated: frozenset[str], label: str) -> dict[str, Any]:
    """Return the adopted units of a saved state; raise an error if the part states its own."""
    units = {name: np.asarray(array) for name, array in state.items() if name.startswith("units.")}
    names = {name.removeprefix("units.") for name in units}
    if not names <= unstated:
        raise InvalidArgument(f"state has units of {sorted(names)}, but {label} states its own")
    numbers = {name: array.tolist() for name, array in units.items()}
    adopted: dict[str, Any] = {}
    if "reward_range" in names:
        adopted["reward_range"] = interval("reward_range", numbers["units.reward_range"])
    if "noise" in names:
        adopted["noise"] = positive("noise", *numbers["units.noise"])
    return adopted
