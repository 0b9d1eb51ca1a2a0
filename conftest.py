"""Settings of the tests and of the documented examples."""

import os
from pathlib import Path

import pytest

# All test processes, of this run and the next, find each other's compiled drivers here.
os.environ.setdefault("EQUIPOISE_CACHE", str(Path(__file__).resolve().parent / "build" / "drivers"))


@pytest.fixture(autouse=True)
def run_examples_in_a_folder_of_their_own(request: pytest.FixtureRequest) -> None:
    """Documented examples may write files, but not into the repository."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
