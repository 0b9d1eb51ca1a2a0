"""Learners of other libraries decide alike in any unit of rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.adapters._core.outside import OutsideLearner
from tests.adapters.subjects import CASES, Subject
from tests.units import UNITS, Unit, differences, in_unit


def maker(subject: Subject) -> Callable[..., Any]:
    """Make the learner of a subject, or one that differs in some settings."""
    return lambda **more: type(subject.make()).from_config({**subject.make().config(), **more})


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("subject", CASES)
def test_adapters_decide_alike_in_any_unit(subject: Subject, unit: Unit) -> None:
    """All registered adapters, models and explorations, of which `tests.adapters.subjects` has one each (tested)."""
    plain, other = in_unit(maker(subject), unit)
    assert differences(plain, other, unit, subject.contexts) == []


@pytest.mark.parametrize("subject", CASES)
def test_a_learner_that_passes_rewards_as_they_are_is_caught(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the library sees rewards in the unit of the caller."""
    monkeypatch.setattr(OutsideLearner, "share", lambda self, reward: reward)
    plain, other = in_unit(maker(subject), Unit(120.0, 100.0))
    if getattr(plain, "_model", None) is None or not plain._model.bounded:  # a classifier refuses them
        assert differences(plain, other, Unit(120.0, 100.0), subject.contexts)
