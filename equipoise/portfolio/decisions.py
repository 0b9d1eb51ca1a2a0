"""Decisions: what a portfolio hands out, and copies of what it was given."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple, TypeVar

import numpy as np

from equipoise.types import Action

COPIED = (list, tuple, dict)
T = TypeVar("T")


class Decision(NamedTuple):
    """What to do now, and the ticket under which its reward is learned."""

    id: int
    action: Action
    learner: int  # index of the learner that proposed the action
    learner_name: str
    probability: float  # with which this learner was chosen and picked this action; nan if the learner cannot tell


def copy_if_mutable(value: T) -> T:
    """What the caller may change before the reward comes, as it is now."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return deepcopy(value) if isinstance(value, COPIED) else value
