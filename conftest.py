"""Settings of the documented examples."""

import pytest

collect_ignore = ["docs/reference.md"]  # its examples are those of the docstrings, which run where they stand


@pytest.fixture(autouse=True)
def run_examples_in_a_folder_of_their_own(request: pytest.FixtureRequest) -> None:
    """Documented examples may write files, but not into the repository."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
