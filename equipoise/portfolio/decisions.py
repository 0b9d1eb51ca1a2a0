"""Decisions of a portfolio, and copies of its inputs."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple, TypeVar

import numpy as np

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


def copy_if_mutable(value: T) -> T:
    """A copy, if the caller could change the value before its reward arrives."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return deepcopy(value) if isinstance(value, COPIED) else value
