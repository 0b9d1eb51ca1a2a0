"""The study of live portfolios, in small: failing learners and crashes.

Its certificates are in `tests/portfolio/test_substitutes.py`.
"""

import pytest

from tools.studies import live_portfolio
from tools.studies.live_portfolio import chaos, tickets


@pytest.mark.slow
def test_failing_learners_and_crashes_in_small() -> None:
    figures = [*chaos(4_000), *tickets(500)]
    assert [what for what, _, holds in figures if not holds] == []
    assert len(figures) == 7


def test_a_broken_promise_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(live_portfolio.PARTS, "chaos", lambda: iter([("requests answered", 0, False)]))
    assert live_portfolio.main(["chaos"]) == 1
    assert "BROKEN requests answered: 0" in capsys.readouterr().out
