"""The propensity of an action: its probability over all learners that might have been chosen, given the context.

The propensity is sum_j p_j P_j(a), where p_j is the probability with which the selector chooses learner j and P_j(a)
the probability with which learner j picks the action. P_j comes from `pmf` if the learner has it; a learner that draws
no random numbers picks its proposal. With an exploration floor of epsilon over K offers it is
epsilon / K + (1 - epsilon) sum_j p_j P_j(a).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.learner import AdaptedLearner, Proposal
from equipoise.portfolio.members import Member
from equipoise.portfolio.proposals import n_offers
from equipoise.types import Action, Context


def propensity(
    action: Action,
    context_of: Callable[[AdaptedLearner], Context],
    probabilities: Sequence[float] | None,
    members: Sequence[Member],
    proposals: Mapping[int, Proposal],
    ask: Callable[[int], Proposal],
) -> float:
    """The propensity of an action without a floor; nan if the selector or a learner cannot tell. Never fails.

    `context_of` is what a learner sees.
    """
    if probabilities is None:
        return nan
    total = 0.0
    for j, chance in enumerate(probabilities):
        if chance > 0.0:
            try:
                total += chance * _chance(action, context_of, members[j], proposals.get(j), ask, j)
            except Exception:  # a learner that cannot tell now does not spoil the decision
                return nan
    return 1.0 if total > 1.0 else total  # rounding may leave more; nan stays


def _chance(
    action: Action,
    context_of: Callable[[AdaptedLearner], Context],
    member: Member,
    proposal: Proposal | None,
    ask: Callable[[int], Proposal],
    j: int,
) -> float:
    """The probability with which a learner picks the action."""
    learner = member.adapted
    if "pmf" not in learner.provides and not learner.randomized:
        return float(_same(action, (ask(j) if proposal is None else proposal).action))
    probabilities = learner.pmf(context_of(learner))
    if probabilities is None:
        return nan
    return float(probabilities[action]) if action < len(probabilities) else 0.0


def _same(action: Action, other: Action) -> bool:
    return bool(np.array_equal(action, other))


def with_floor(chance: float, floor: float, n_actions: int) -> float:
    """The propensity under an exploration floor, from that without it."""
    return nan if isnan(chance) else floor / n_actions + (1.0 - floor) * chance


def count_actions(context: Context, members: Sequence[Member]) -> int:
    """The number of actions to explore: the offers of the context, or the arms of the learners."""
    n_actions = n_offers(context)
    if isinstance(context, Offers):
        n_actions = len(context.offered)
    if n_actions is None:
        arms = {getattr(member.learner.learner, "arms", None) for member in members if member.learner is not None}
        n_actions = min((number for number in arms if isinstance(number, int)), default=None)
    if n_actions is None:
        raise InvalidArgument(
            "explore needs finitely many actions, but the context is no matrix of offers and no learner has arms"
        )
    return n_actions


def nth_offered(context: Context, position: int) -> int:
    """The index of an action among all offers, from its position among those that the mask leaves."""
    return int(context.offered[position]) if isinstance(context, Offers) else position
