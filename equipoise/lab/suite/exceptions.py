"""Where another selector is clearly better than the recommended one, and why."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.lab.suite.contenders import REFERENCES
from equipoise.lab.suite.leaderboard import strict_price
from equipoise.lab.suite.suite import Outcome

# `Portfolio` takes the first that is compatible with the learners.
RECOMMENDED = ("counterfactual-balancing", "realized-balancing")
FACTOR = 1.25  # by which another selector's strict price must be lower to be listed
_TOLD = "Its rival is told candidate bounds, which say how poor the learners may be; it needs none."
_EARLY = "The learner whose first rewards are best is the right one in most seeds, so not exploring costs little here."
# By table and instance. A case that is listed without a reason here is marked on the page.
REASONS = {
    ("alone", "poor-start-30"): _TOLD,
    ("alone", "poor-start-100"): _TOLD,
    ("alone", "many-learners"): _TOLD,
    ("alone", "nested-small"): _EARLY,
    ("alone", "ucb-width-noisy"): _EARLY,
    (
        "alone",
        "context-useless",
    ): "Its rival is designed to find out whether contexts matter, and compares nothing else.",
    ("alone", "confidence-noisy"): "Learners are as good at once as they will be, so that less exploring suffices.",
    ("alone", "linear-mdp"): "In few episodes, the plays that every learner gets before it is judged are a large part.",
    (
        "alone",
        "exploration-trap",
    ): "Named exception: others play what the best learner agrees with, so its own proposals "
    "are mostly those it explores, and look poor.",
}


class Lower(NamedTuple):
    """An instance on which another selector has a lower strict price than the recommended one."""

    instance: str
    recommended: str
    price: float
    rival: str
    rival_price: float

    @property
    def ratio(self) -> float:
        return self.price / self.rival_price


def lower_rivals(outcome: Outcome, table: str, factor: float = FACTOR) -> list[Lower]:
    """The instances on which the best other selector is more than `factor` times lower, the largest ratio first."""
    scores, found = outcome.scores[table], []
    for name in scores.learners:
        prices = {
            label: strict_price(own[name], scores.learners[name], scores.floors[name])
            for label, own in scores.selectors.items()
            if name in own and label not in REFERENCES
        }
        subject = next((label for label in RECOMMENDED if label in prices), None)
        if subject is None:
            continue
        rival = min(prices, key=lambda label: prices[label])
        case = Lower(name, subject, prices[subject], rival, prices[rival])
        if case.ratio > factor:
            found.append(case)
    return sorted(found, key=lambda case: -case.ratio)


def reason(table: str, case: Lower) -> str:
    return REASONS.get((table, case.instance), "**reason not yet given**")
