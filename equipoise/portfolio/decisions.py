"""Decisions of a portfolio."""

from __future__ import annotations

import warnings
from math import nan
from typing import NamedTuple

from equipoise.types import Action


class Decision(NamedTuple):
    """An action to take, and the id under which its reward is learned.

    Attributes
    ----------
    id
        The id of the decision, unique over restarts, copies and processes.
    action
        The action to take.
    learner
        Index of the learner that plays; None if no learner does (fallback, exploration floor).
    learner_name
        Name of that learner, unique in the portfolio; None if no learner plays.
    learner_probability
        Probability with which this learner was chosen, before the context was seen; if no learner plays, the
        probability of that.
    action_probability
        Probability with which the learner then picked this action; nan if it cannot tell.
    propensity
        Probability of the action over all learners that might have been chosen; nan if unknown.
    action_id
        Id of the action, if the offers have ids.
    """

    id: str
    action: Action
    learner: int | None
    learner_name: str | None
    learner_probability: float = 1.0
    action_probability: float = nan
    propensity: float = nan
    action_id: str | None = None

    @property
    def probability(self) -> float:
        """Deprecated: `learner_probability * action_probability`, which is not the propensity of the action."""
        warnings.warn(
            "probability is deprecated and will be removed in equipoise 0.4; use propensity for off-policy evaluation, "
            "or learner_probability and action_probability",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.learner_probability * self.action_probability
