"""The recorded journal and file of version 1 open, now and in every later release."""

import json
import shutil
from pathlib import Path

import equipoise
from equipoise import Portfolio
from equipoise.journal import SQLiteJournal, rebuild, recover
from equipoise.journal.recovery import digest
from equipoise.learners import UCB
from tests.journal.golden import DIGESTS, FILE, JOURNAL, make

KINDS = {
    *("created", "decided", "rewarded", "expired", "withdrawn", "update_failed", "updates_retried"),
    *("learner_added", "learner_removed", "learner_renamed", "learner_suspended", "learner_resumed"),
    *("learner_warmed", "config"),
}


def copied(tmp_path: Path) -> Path:
    return Path(shutil.copy(JOURNAL, tmp_path / "journal.db"))


def test_the_recorded_journal_has_events_of_all_kinds_and_folds_to_the_recorded_state(tmp_path: Path) -> None:
    path, recorded = copied(tmp_path), json.loads(DIGESTS.read_text())
    journal = SQLiteJournal(path, create=False)
    assert {event.kind for event in journal.read(1)} >= KINDS
    for way in (rebuild, recover):
        portfolio = way(journal, make()).portfolio
        assert digest(portfolio) == recorded["digest"]
        assert list(portfolio.pending) == recorded["pending"]


def test_the_recorded_journal_goes_on(tmp_path: Path) -> None:
    with equipoise.open(copied(tmp_path), make, accept_changes=True) as live:
        live.learn("open", 1.0)
        live.learn(live.decide(None), 0.25)
        assert live.learner_names == ("UCB", "flaky", "EpsilonGreedy(0.1)", "newest")


def test_the_recorded_file_loads_to_the_recorded_state() -> None:
    learners = [*make().learners[:2], UCB(3, scale=2.0, name="late")]
    portfolio = Portfolio.load(FILE, learners=learners)
    assert digest(portfolio) == json.loads(DIGESTS.read_text())["digest"]
