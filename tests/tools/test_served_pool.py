"""The study of a pool of several libraries behind HTTP, in small: tools/studies/served_pool.py."""

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("polars", reason="needs the extra logs")

from tests.adapters.subjects import needs
from tools.studies import served_pool


@needs("vowpalwabbit")
@needs("sklearn")
@needs("lightgbm")
@needs("river")
@pytest.mark.slow
def test_every_learner_plays_a_kill_changes_nothing_and_the_journal_replays(tmp_path: Path) -> None:
    rounds = 150
    found = served_pool.compare(tmp_path, rounds)
    learners = {"OFUL", "UCB", "VW", "SGD", "LightGBM", "River"}
    assert learners <= found["plays"].keys() and found["plays"].keys() <= learners | {"None"}
    assert (found["refused"], found["failures"], found["differing answers"]) == (0, 0, 0)
    assert found["same standing and certificate"] and found["rounds in the log"] == rounds
    assert all(found["values"][method].keys() >= learners for method in ("progressive", "rejection"))
    assert found["rounds of the portfolio by rejection"] > 0 and found["warm start"] == [rounds] * 6
