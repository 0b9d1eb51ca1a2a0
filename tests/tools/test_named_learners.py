"""The study of learners that people ask for by name, in small: tools/studies/named_learners.py."""

import pytest

from tools.studies import named_learners


@pytest.mark.slow
@pytest.mark.statistical
def test_logistic_learners_lose_less_on_clicks_than_oful() -> None:
    """Three seeds and 2,500 rounds; the control, which learns nothing, must lose more."""
    figures = list(named_learners.clicks(3, 2_500))
    assert [what for what, _, holds in figures if not holds] == []
    assert len(figures) == 5


@pytest.mark.slow
@pytest.mark.statistical
def test_a_discount_halves_the_regret_after_a_swap() -> None:
    """Two seeds and 1,500 rounds before and after; the control has a discount that is none."""
    figures = list(named_learners.swap(2, 1_500))
    assert [what for what, _, holds in figures if not holds] == []
    assert len(figures) == 12
