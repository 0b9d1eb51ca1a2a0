"""Runs of Algorithm 3 whose epochs end, and their records."""

from typing import Any

from equipoise import Proposal
from equipoise.certificates.records import elimination_record
from equipoise.learners._core.linear_class import LinearClass
from equipoise.selectors import AdversarialElimination

NAMES = ["two", "four", "eight"]
CLASSES = [LinearClass(name, dim) for name, dim in zip(NAMES, (2, 4, 8), strict=True)]


def records_of(**settings: Any) -> list[dict[str, Any]]:
    """A run in which everybody claims 0.8 of the width but rewards are 0.3 of it, until two learners are eliminated."""
    selector = AdversarialElimination(CLASSES, **settings)
    low, high = selector.reward_range
    while len(selector.eliminations) < 2:
        choice = selector.choose()
        lowers = [low + (high - low) * level for level in (0.7, 0.8, 0.75)]
        selector.observe(choice, {i: Proposal(0, lowers[i], 0.1) for i in selector.active})
        selector.credit(choice, low + 0.3 * (high - low))
    return [
        elimination_record(end, selector_label="adversarial", seed=3, premises=selector.premises, learner_names=NAMES)
        for end in selector.eliminations
    ]


RECORDS = [
    *records_of(),
    *records_of(delta=0.3, noise=0.2),
    *records_of(reward_range=(-3.0, 1.0), radius_scale=1.5, seed=2),
]
