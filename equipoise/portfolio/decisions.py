"""Decisions of a portfolio, and copies of its inputs."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.types import Action

COPIED = (list, tuple, dict)
T = TypeVar("T")


class Decision(NamedTuple):
    """An action to take, and the key under which its reward is learned.

    Attributes
    ----------
    id
        Number of the decision, from 1.
    action
        The action to take.
    learner
        Index of the learner that proposed the action.
    learner_name
        Name of that learner, unique in the portfolio.
    probability
        Probability that this learner was chosen and that it chose this action; nan if unknown.
    """

    id: int
    action: Action
    learner: int
    learner_name: str
    probability: float


def check_together(**given: object) -> None:
    """Raise an error if some of these arguments are None and others are not."""
    if len({value is None for value in given.values()}) > 1:
        values = " and ".join(f"{name} is {value!r}" for name, value in given.items())
        raise InvalidArgument(f"{values}, but must be given together")


def copy_if_mutable(value: T) -> T:
    """A copy, if the caller could change the value before its reward arrives."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return deepcopy(value) if isinstance(value, COPIED) else value
