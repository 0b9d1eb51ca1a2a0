"""Pictures and pages of portfolios, and the command that shows them."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.cli import application
from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.learners import UCB, Constant
from equipoise.selectors import BalancedElimination

EXTERNAL = re.compile(r"(?:src|href)\s*=|@import|url\(|<script|<link")


def played(rounds: int = 2_000) -> Portfolio:
    selector = BalancedElimination([Power(10.0), Power(10.0), Power(50.0)])
    learners = [Constant(0, name="<b>A & B"), Constant(1), Constant(2)]
    portfolio = Portfolio(learners, selector, reward_range=(-20, 80), clip=True)
    for t in range(rounds):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (-10.0, 70.0, 30.0)[decision.action] + 25 * (t % 7 == 0))
    return portfolio


@pytest.fixture(scope="module")
def portfolio() -> Portfolio:
    portfolio = played()
    portfolio.suspend("Constant(2)")
    portfolio.add_learner(Constant(1), bound=Power(50.0))
    return portfolio


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "path", "use"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "use"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.slow
def test_the_page_is_self_contained_and_says_everything(portfolio: Portfolio, tmp_path: Path) -> None:
    assert portfolio.plot(tmp_path / "page.html") is None
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    body = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert page.count("<svg") == 1 and not EXTERNAL.search(body) and "http" not in body
    assert "<b>A & B" not in page and "&lt;b&gt;A &amp; B" in page
    tags = Tags()
    tags.feed(body)
    assert tags.open == []
    text = "".join(tags.texts)
    assert portfolio.describe().split("\n")[0] in text
    clipped = portfolio.health()["clipped"]
    assert clipped > 0 and f"clipped to [-20, 80]; so far {clipped:,} were outside" in text
    for mark in portfolio.history.marks:
        assert f"Round {mark.round:,}: {mark.name} " in text and mark.reason in text
    for name in portfolio.learner_names:
        assert f"{name} has " in text
    assert portfolio.selector.explanation[1:] in text


def test_the_figure_shows_every_learner_and_mark(portfolio: Portfolio) -> None:
    figure = portfolio.plot()
    assert figure is not None
    shares, means, regret = figure.axes
    assert len(means.lines) - len(portfolio.history.marks) == len(portfolio.learner_names) == 4
    assert [text.get_text() for text in shares.texts] == [str(k + 1) for k in range(len(portfolio.history.marks))]
    upper = np.asarray(regret.lines[0].get_ydata())
    assert upper[-1] == portfolio.certificate().regret_upper
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(portfolio.learner_names)


def test_a_portfolio_without_rounds_can_be_drawn(tmp_path: Path) -> None:
    Portfolio([UCB(2)]).plot(tmp_path / "new.html")
    assert "No events yet." in (tmp_path / "new.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "start"), [("figure.png", b"\x89PNG"), ("figure.svg", b"<?xml")])
def test_figures_are_written_by_their_ending(portfolio: Portfolio, tmp_path: Path, name: str, start: bytes) -> None:
    portfolio.plot(tmp_path / name)
    first = (tmp_path / name).read_bytes()
    portfolio.plot(tmp_path / name)
    assert first.startswith(start) and (tmp_path / name).read_bytes() == first


def test_other_endings_are_refused(portfolio: Portfolio, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"path is '.*pdf', but must end in one of \.html, \.png, \.svg"):
        portfolio.plot(tmp_path / "figure.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_show_describes_a_saved_portfolio_and_writes_a_page(portfolio: Portfolio, tmp_path: Path) -> None:
    file = tmp_path / "shop.equipoise"
    portfolio.save(file)
    result = CliRunner().invoke(application(), ["show", str(file)])
    assert result.exit_code == 0, result.output
    assert portfolio.describe() in result.output and "It is suspended by request" in result.output
    assert (tmp_path / "shop.equipoise.html").is_file()
    other = CliRunner().invoke(application(), ["show", str(file), "--out", str(tmp_path / "other.html")])
    assert other.exit_code == 0
    assert (tmp_path / "other.html").read_bytes() == (tmp_path / "shop.equipoise.html").read_bytes()


def test_show_names_what_it_cannot_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(application(), ["show", str(tmp_path / "missing")])
    assert isinstance(result.exception, UnreadableFile) and "does not exist" in str(result.exception)
