"""Statements are values: the page, the dashboard and `describe()` render them, and nothing reads prose."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.errors import DuplicateReward
from equipoise.learners import OFUL, UCB, Constant
from equipoise.portfolio import text
from equipoise.selectors import Uniform

PACKAGE = Path(equipoise.__file__).parent


def default_portfolio(rounds: int = 20) -> Portfolio:
    portfolio, rng = Portfolio([OFUL(2, name="two"), OFUL(3, name="three")]), np.random.default_rng(0)
    for _ in range(rounds):
        portfolio.learn(portfolio.decide(rng.uniform(-0.5, 0.5, (4, 3))), float(rng.random()))
    return portfolio


def test_statements_are_values_and_describe_renders_them() -> None:
    portfolio = default_portfolio()
    stated = portfolio.statements()
    assert stated.certificate == portfolio.certificate()
    assert [each.standing for each in stated.learners] == portfolio.standing()
    assert stated.names == portfolio.learner_names == ("two", "three")
    assert stated.recommendation.startswith("The selector is CounterfactualBalancing: ")
    lines = portfolio.describe().split("\n")
    assert lines == [
        *text.headlines(stated),
        *(text.about(stated, each) for each in stated.learners),
        stated.recommendation,
    ]


def test_headlines_have_no_row_of_a_learner() -> None:
    """The reported fault: with the default selector the first learner's row stood among the headlines."""
    stated = default_portfolio().statements()
    assert not any(line.startswith(("two:", "three:")) for line in text.headlines(stated))
    assert text.about(stated, stated.learners[0]).startswith("two: ")


def test_the_page_shows_the_reason_for_the_selector_and_each_learner_once(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra lab")
    portfolio = default_portfolio()
    portfolio.plot(tmp_path / "portfolio.html")
    page = (tmp_path / "portfolio.html").read_text(encoding="utf-8")
    head = page[: page.index("Over time")]
    assert "The selector is CounterfactualBalancing: 2 of 2 learners learn from rounds of others." in head
    assert "two: " not in head and "three: " not in head


@pytest.mark.parametrize("reading", ["status", "sample", "sample with text"])
def test_a_reading_computes_certificate_and_standing_once(reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="needs the extra serve")
    from equipoise.serve.dashboard.reading import read
    from equipoise.serve.hosted import Hosted

    hosted, calls = Hosted(default_portfolio()), list[str]()
    kind = type(hosted.portfolio.selector)

    def count(name: str) -> None:
        compute = getattr(kind, name)

        def counted(self: Any) -> Any:
            calls.append(name)
            return compute(self)

        monkeypatch.setattr(kind, name, counted)

    count("certificate")
    count("standing")
    if reading == "status":
        assert hosted.status()["description"] and calls == ["certificate", "standing"]
    else:
        read(hosted, [0.0] * 8, with_text=reading.endswith("text"))
        assert sorted(calls) == ["certificate", "standing"]


def test_the_learners_of_open_decisions_are_read_without_saving_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="needs the extra serve")
    from equipoise.serve.hosted import Arrivals

    portfolio = Portfolio([UCB(3), UCB(3, scale=0.1)], explore=0.5)
    decisions = [portfolio.decide(None) for _ in range(40)]
    for decision in decisions[::3]:
        portfolio.learn(decision, 0.5)
    expected = {each.id: each.learner for k, each in enumerate(decisions) if k % 3}
    assert None in expected.values() and {0, 1} <= set(expected.values())
    assert {id_: learner for id_, (learner, _) in portfolio.open_decisions().items()} == expected
    monkeypatch.setattr(Portfolio, "state", None)  # which would read everything
    arrivals = Arrivals(portfolio)
    assert len(arrivals) == len(expected) and all(id_ in arrivals for id_ in expected)
    for id_, owner in expected.items():
        portfolio.learn(id_, float(owner == 1))
    n = sum(owner == 1 for owner in expected.values())
    assert arrivals.of(1) == (n, n)


def test_the_dashboard_shows_the_reason_for_the_selector() -> None:
    pytest.importorskip("starlette", reason="needs the extra serve")
    from equipoise.serve.dashboard.reading import read
    from equipoise.serve.hosted import Hosted

    portfolio = default_portfolio()
    words: Any = read(Hosted(portfolio), [0.0] * 8, with_text=True).words
    assert words["recommendation"].startswith("The selector is CounterfactualBalancing: ")
    assert words["statements"] == text.headlines(portfolio.statements())
    assert [line.partition(":")[0] for line in words["about_learners"]] == ["two", "three"]


def test_a_pause_is_a_value_of_its_mark() -> None:
    failing = Constant(0)
    failing.decide = lambda *_: 1 / 0  # type: ignore[assignment, method-assign]
    portfolio = Portfolio([failing, Constant(1)], Uniform(2), seed=1)
    for _ in range(40):
        portfolio.learn(portfolio.decide(None), 0.5)
    portfolio.suspend("Constant(1)")
    paused, requested = portfolio.history.marks[0], portfolio.history.marks[-1]
    assert paused.until is not None and paused.until > paused.round and "until" not in paused.reason
    assert requested.until is None and requested.reason == "by request"


def test_nothing_reads_prose() -> None:
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"describe\(\)\.?\s*\.(split|partition|splitlines)", source), path
    script = (PACKAGE / "serve" / "static" / "parts.js").read_text(encoding="utf-8")
    assert "until round" not in script.replace("`, until round ${", "")


def test_a_failing_update_closes_the_decision_and_is_kept() -> None:
    """As the guide says: `learn` does not raise, and a second reward is refused."""
    learner = UCB(2)
    learner.learn = lambda *_, **__: 1 / 0  # type: ignore[assignment, method-assign]
    portfolio = Portfolio([learner])
    decision = portfolio.decide(None)
    portfolio.learn(decision, 1.0)
    assert [update.error for update in portfolio.failed_updates] == ["ZeroDivisionError: division by zero"]
    with pytest.raises(DuplicateReward):
        portfolio.learn(decision, 1.0)
    guide = (PACKAGE.parent / "docs" / "guide" / "write-a-learner.md").read_text(encoding="utf-8")
    assert "stays open" not in guide and "`DuplicateReward`" in guide


def test_a_repeated_reward_is_compared_as_it_counts() -> None:
    pytest.importorskip("starlette", reason="needs the extra serve")
    from equipoise.serve.hosted import Hosted

    hosted = Hosted(Portfolio([UCB(2)], clip=True))
    decision = hosted.decide(None, "mine")
    hosted.reward(decision.id, 1.5, None)
    hosted.reward(decision.id, 1.5, None)  # the same request again
    with pytest.raises(DuplicateReward, match=r"has the reward 1\.0, but another one was given"):
        hosted.reward(decision.id, 0.5, None)
