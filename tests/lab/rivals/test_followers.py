"""RateAdaptive and ExploreCommitExploit: what they compare, and when they commit."""

from __future__ import annotations

import math

from equipoise.bounds import Power
from equipoise.lab.rivals import ExploreCommitExploit, RateAdaptive
from equipoise.lab.rivals.rate_adaptive import common_mark
from tests.rival_reference import drawing, play


def test_rate_adaptive_compares_at_equal_numbers_of_plays() -> None:
    """Learner 1 improves with every play. At 4 plays each it has earned more, although its mean is lower than that of
    learner 0, which had bad luck in its first four plays and much luck in all the others."""
    selector = RateAdaptive(2)
    luck = {0: [0.0, 0.0, 0.0, 0.25] + [1.0] * 20, 1: [0.0, 0.0, 0.25, 0.25]}
    for i, rewards in luck.items():
        for reward in rewards:
            while (choice := selector.choose()).learner != i:
                selector.withdraw(choice)
                selector._rounds.draws += 1
            selector.credit(choice, reward)
    assert common_mark(selector.kernel_state) == 2  # of 2^2 plays each
    assert selector.choose(drawing(0.999)).learner == 1


def test_explore_commit_exploit_commits_after_a_switch() -> None:
    selector = ExploreCommitExploit([Power(0.01), Power(0.02), Power(0.03)], seed=1)
    play(selector, [0.0, 1.0, 1.0], 500)
    (rejected,) = selector.eliminations
    until = rejected.round + math.ceil(rejected.round ** (2 / 3))
    assert rejected.learner.index == 0 and rejected.learner.mean_upper < rejected.witness.mean_lower
    assert selector.kernel_state.commitment[0].until == until
    again = ExploreCommitExploit([Power(0.01), Power(0.02), Power(0.03)], seed=1)
    learners = play(again, [0.0, 1.0, 1.0], until)
    assert learners[rejected.round :] == [1] * (until - rejected.round)


def test_explore_commit_exploit_listens_to_more_complex_learners_only() -> None:
    selector = ExploreCommitExploit([Power(0.01), Power(0.02), Power(0.03)], seed=1)
    play(selector, [0.0, 1.0, 1.0], 500)
    assert selector.current == 1 and selector.kernel_state.commitment[0].until < 500
    selector.evidence.accounts[0].mean_lower = 2.0  # as if the rejected learner had proved the impossible
    play(selector, [0.0, 1.0, 1.0], 10)
    assert selector.current == 1
