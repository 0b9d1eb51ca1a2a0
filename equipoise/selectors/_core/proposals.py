"""Validation of proposals, and their layout as one row per round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.learner import Proposal, Proposals
from equipoise.settings import equal_data
from equipoise.settings.checks import LARGEST, non_negative, real
from equipoise.types import Action

ABSENT = object()  # the action of an expert without a proposal
UNKNOWN = Proposal(-1, nan, nan, nan, -1, nan)


def gather(proposals: Mapping[int, Proposal], asked: Sequence[int], n_learners: int, lower: bool) -> Proposals:
    """The proposals of the learners that were asked; `lower` tells whether lower bounds are needed."""
    missing = [j for j in asked if j not in proposals]
    if missing:
        raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {missing[0]} too")
    rows = [UNKNOWN] * n_learners
    for j in asked:
        action, lower_bound, regret, probability, greedy, value, _ = proposals[j]
        if lower:
            lower_bound = real(f"lower of learner {j}", lower_bound)
        rows[j] = Proposal(_index(action), lower_bound, check_regret(regret), probability, _index(greedy), value)
    actions, lowers, regrets, probabilities, all_greedy, values, _ = zip(*rows, strict=True)
    return Proposals(actions, all_greedy, lowers, regrets, probabilities, values)


def check_regret(regret: float) -> float:
    # nan, which means unknown, is the only value that differs from itself.
    return nan if regret != regret else non_negative("regret", regret)


def check_value(i: int, value: float) -> float:
    if type(value) is float and -LARGEST <= value <= LARGEST:  # as nearly always; the text below takes longer
        return value
    # nan, which means unknown, is the only value that differs from itself.
    return nan if value != value else real(f"value of learner {i}", value)


def blank_proposals(n_learners: int) -> Proposals:
    """Proposals of a round in which no learner was asked."""
    none, unknown = (-1,) * n_learners, (nan,) * n_learners
    return Proposals(none, none, unknown, unknown, unknown, unknown)


def _index(action: Action) -> int:
    return int(action) if isinstance(action, int | np.integer) else -1


def indices(actions: Sequence[Action]) -> tuple[int, ...]:
    """For each action the position of the first one that is equal to it; -1 if there is no action.

    >>> indices([3, 1, 3]), indices([np.array([1.0, 0.0]), np.array([1.0, 0.0])])
    ((0, 1, 0), (0, 0))
    """
    return tuple(
        -1 if action is ABSENT else next(k for k, other in enumerate(actions) if equal_data(action, other))
        for action in actions
    )
