"""The study of live portfolios, in small: failing learners, crashes, certificates with their control."""

import pytest

from tools.studies import live_portfolio
from tools.studies.live_portfolio import chaos, tickets, violations


@pytest.mark.slow
def test_failing_learners_and_crashes_in_small() -> None:
    figures = [*chaos(4_000), *tickets(500)]
    assert [what for what, _, holds in figures if not holds] == []
    assert len(figures) == 7


@pytest.mark.slow
@pytest.mark.statistical
def test_certificates_survive_failures_that_depend_on_contexts() -> None:
    """A valid certificate is false in a run with probability at most .05 (0 of 1,000 were), so that more than 3 of 12
    are false with probability below 3e-3; if rounds of substitutes count, all 50 of the study were false."""
    assert violations("any", 12) <= 3
    assert violations("independent", 6) >= 5


def test_a_broken_promise_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(live_portfolio.PARTS, "chaos", lambda: iter([("requests answered", 0, False)]))
    assert live_portfolio.main(["chaos"]) == 1
    assert "BROKEN requests answered: 0" in capsys.readouterr().out
