"""Kinds of events and states of learners stand in one table each; everything else derives from it or agrees."""

import logging
import re
from pathlib import Path

import equipoise
from equipoise import Portfolio
from equipoise.learners import UCB
from equipoise.portfolio import text
from equipoise.portfolio.events import KINDS, Event
from equipoise.portfolio.folding import FOLDS
from equipoise.portfolio.statements import LEARNER_STATES, Mark
from tests.recorders import Recorder

PACKAGE = Path(equipoise.__file__).parent
PARTS = PACKAGE / "serve" / "static" / "parts.js"
STATE = re.compile(r'^  (\w+): \{ word: "([^"]+)", mark: "[^"]+", kind: "\w+", meaning: "[^"]+"', re.MULTILINE)


def test_every_kind_is_folded_or_always_derived() -> None:
    assert set(FOLDS) == {kind for kind, about in KINDS.items() if not about.derived}


def test_every_kind_is_emitted_and_only_these() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "portfolio").glob("*.py"))
    emitted = set(re.findall(r'\.emit\(\s*"(\w+)"', sources)) | set(re.findall(r'settle\(\s*ticket, "(\w+)"', sources))
    assert emitted == set(KINDS)


def test_every_kind_has_a_meaning_and_marks_are_logged() -> None:
    assert all(about.meaning for about in KINDS.values())
    assert all(about.level > logging.DEBUG for about in KINDS.values() if about.word)


def test_a_pause_and_a_suspension_by_request_read_differently() -> None:
    """The reported fault: a pause read "suspended" on the page and "paused after failures" on the dashboard."""
    portfolio = Portfolio([UCB(3), Recorder(1)])
    seen: list[Event] = []
    portfolio.on_event(seen.append)
    portfolio.learners[1].failures["decide"] = 10**6
    while not portfolio.history.marks:
        portfolio.learn(portfolio.decide(None), 0.5)
    portfolio.suspend("UCB")
    assert [text.happened(mark) for mark in portfolio.history.marks] == ["paused after failures", "suspended"]
    assert [event.derived for event in seen if event.kind == "learner_suspended"] == [True, False]
    assert [row["state"] for row in portfolio.health()["learners"]] == ["suspended", "paused"]
    assert "It is paused after failures." in portfolio.describe()


def test_every_mark_has_a_word() -> None:
    words = {kind: text.happened(Mark(1, kind, "one", "")) for kind, about in KINDS.items() if about.word}
    assert words["learner_warmed"] == "warmed up" and len(set(words.values())) == len(words) > 7


def test_states_have_the_same_words_everywhere() -> None:
    assert list(text.STATE_WORDS) == list(LEARNER_STATES)
    assert all(re.fullmatch("[a-z]+", state) for state in LEARNER_STATES)
    assert dict(STATE.findall(PARTS.read_text(encoding="utf-8"))) == text.STATE_WORDS


def test_no_script_has_a_list_of_kinds() -> None:
    """The server sends the words; a script may treat single kinds differently."""
    marked = {kind for kind, about in KINDS.items() if about.word}
    for path in PARTS.parent.rglob("*.js"):
        if "vendor" not in path.parts:
            words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
            assert words & marked <= {"eliminated", "drift"}, path.name  # a state, and the colors of marks
