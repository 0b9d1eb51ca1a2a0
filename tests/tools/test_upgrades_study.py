"""The study of upgrades finds no change between a release and itself, and notices one."""

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from tools.studies.upgrades import ROOT, Row, play, repeat, run_case, served


def test_a_killed_release_upgraded_to_itself_changes_nothing(tmp_path: Path) -> None:
    row = run_case([ROOT, ROOT], tmp_path, "kill -9", "named", 20)
    assert row == Row("kill -9", "upgrade", "named", repeated=20, rebuilt=True) and row.holds
    with served(ROOT, tmp_path, 9) as connection:
        made = play(connection, "z", 2)
        assert repeat(connection, {**made, "z0": made["z1"]}) == 1


def test_a_release_that_does_not_start_is_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    row = run_case([ROOT, ROOT], tmp_path, "SIGTERM", "default", 1)
    assert not row.holds and "release 1: did not start: equipoise: " in str(row)
