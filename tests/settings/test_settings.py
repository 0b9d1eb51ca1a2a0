"""Settings declared as fields: constructor, config, repr, equality and cloning all follow from them."""

import inspect
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.settings import Configured, configurable, optional, setting
from equipoise.settings.checks import count, positive


@configurable
class Scale(Configured):
    unit: float = setting(default=1.0, check=positive)
    limit: int | None = setting(default=None, check=optional(count))


@configurable
class Ruler(Scale):
    length: int = setting(check=count, kw_only=False)
    marks: tuple[int, ...] = setting(default=(), decode=tuple)

    def _set_up(self) -> None:
        self.weights = np.zeros(self.length)

    def state(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights}


def test_inherited_settings_are_arguments_too() -> None:
    ruler = Ruler(3, unit=2, marks=(1, 2))
    assert (ruler.length, ruler.unit, ruler.limit, ruler.marks) == (3, 2.0, None, (1, 2))
    assert list(inspect.signature(Ruler).parameters) == ["length", "unit", "limit", "marks"]


def test_config_is_plain_and_leads_back() -> None:
    ruler = Ruler(3, limit=7, marks=(1, 2))
    assert ruler.config() == {"length": 3, "unit": 1.0, "limit": 7, "marks": [1, 2]}
    assert Ruler.from_config(ruler.config()) == ruler
    assert Ruler.from_config({"length": 3}) == Ruler(3)


def test_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(Ruler(3)) == "Ruler(3)"
    assert repr(Ruler(3, unit=0.5, marks=(1,))) == "Ruler(3, unit=0.5, marks=(1,))"


def test_equality_is_of_class_settings_and_state() -> None:
    ruler, other = Ruler(3), Ruler(3)
    assert ruler == other == deepcopy(ruler)
    assert ruler != Ruler(4)
    assert ruler != Ruler(3, unit=2.0)
    assert ruler != "ruler"
    other.weights[1] = np.nan
    assert ruler != other
    ruler.weights[1] = np.nan
    assert ruler == other


def test_a_clone_has_the_settings_and_nothing_learned() -> None:
    ruler = Ruler(3, unit=2.0)
    ruler.weights[0] = 1.0
    clone = ruler.clone()
    assert clone == Ruler(3, unit=2.0)
    assert clone.weights is not ruler.weights


@pytest.mark.parametrize(
    "make", [lambda: Ruler(3, **dict[str, Any](limti=4)), lambda: Ruler.from_config({"length": 3, "limti": 4})]
)
def test_a_misspelled_setting_is_named_with_its_class_and_what_was_meant(make) -> None:
    with pytest.raises(UnknownSetting, match=r"^setting of Ruler 'limti' is unknown; did you mean limit\?$"):
        make()
    with pytest.raises(TypeError):
        make()


def test_checks_name_the_setting() -> None:
    with pytest.raises(InvalidArgument, match="limit is 0, but must be a whole number at least 1"):
        Ruler(3, limit=0)
