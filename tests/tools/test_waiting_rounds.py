"""The study of waiting rounds, with few rounds: what it counts, not how long it takes."""

from pathlib import Path

from tools.studies.waiting_rounds import MISSING, run


def test_rounds_wait_behind_missing_rewards_only(tmp_path: Path) -> None:
    for missing, waiting in ((0, 0), (MISSING, 400 - MISSING)):
        (tmp_path / str(missing)).mkdir()
        found = run("default", None, missing, 400, tmp_path / str(missing))
        assert found["waiting"] == waiting
        assert found["snapshot"] * 1e6 < 20_000 + 400 * waiting
