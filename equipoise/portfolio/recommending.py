"""The selector of a portfolio that is given none, and why it is that one.

`CounterfactualBalancing` asks every learner in every round, and pays off where learners learn from rounds of others. It
is recommended if every learner accepts "off_policy" or "agreed" and provides "greedy" (a fixed rule, which learns
nothing, needs neither), and at least one that learns accepts "off_policy". A learner that accepts only "agreed" but
ignores contexts, such as `UCB`, learns from its own plays: beside learners that see contexts, the rounds that it agrees
with are no fair sample. Everywhere else `RealizedBalancing` is recommended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.learner import MinimalLearner, accepts, part_name
from equipoise.selector import Selector
from equipoise.settings.checks import boolean


class Recommendation(NamedTuple):
    """A selector, and in a sentence why it is that one."""

    selector: Selector
    reason: str


def recommend(learners: Sequence[MinimalLearner], share_data: bool | None) -> Recommendation:
    """The selector for these learners; with `share_data` False no learner learns from rounds of others."""
    from equipoise.selectors import CounterfactualBalancing, RealizedBalancing  # slow to import

    shares = share_data is None or boolean("share_data", share_data)
    obstacle = _obstacle(learners) if shares else "data are not shared"
    if obstacle:
        return Recommendation(RealizedBalancing(len(learners)), f"The selector is RealizedBalancing: {obstacle}.")
    return Recommendation(
        CounterfactualBalancing.for_learners(learners, share_data=True),
        "The selector is CounterfactualBalancing: learners learn from each other's rounds and have greedy actions.",
    )


def _obstacle(learners: Sequence[MinimalLearner]) -> str:
    """Why the learners do not suit CounterfactualBalancing; empty if they do."""
    from equipoise.selectors._core.ways import can_learn, misfit

    if len(learners) < 2:
        return "there is one learner"
    for learner in learners:
        reason = misfit(learner)
        if reason:
            return f"{part_name(learner)} {reason}"
    if not any("off_policy" in accepts(learner) and can_learn(learner) for learner in learners):
        return "no learner learns from rounds that others play"
    return ""
