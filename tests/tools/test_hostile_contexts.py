"""Requests of one client do not move traffic between learners."""

import pytest

from tools.studies.hostile_contexts import MAX_ERRORS, compare, study

SEEDS, ROUNDS = 6, 60  # a quick form; `python -m tools.studies.hostile_contexts` is the whole study


@pytest.mark.statistical
def test_good_rounds_go_to_the_same_learners_beside_hostile_requests() -> None:
    """Fixed seeds; if the true shares are equal, a new seed fails with probability at most 0.014 (t, 10 degrees)."""
    found = study("the default", "rewarded", SEEDS, ROUNDS)
    assert found.errors <= MAX_ERRORS and found.beside > 0.5


@pytest.mark.statistical
def test_the_study_catches_refusals_that_count_as_failures() -> None:
    found = study("the default", "rewarded", SEEDS, ROUNDS, fails=True)
    assert found.errors > 2 * MAX_ERRORS and found.beside < found.alone / 2


def test_differences_are_in_standard_errors() -> None:
    assert compare([0.0, 0.2], [0.0, 0.2]).errors == 0.0
    assert compare([0.4, 0.6], [0.9, 1.1]).errors == pytest.approx(0.5 / (0.01 + 0.01) ** 0.5)
