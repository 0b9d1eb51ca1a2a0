"""Settings of tests and documented examples."""

import gc
import os
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tests  # noqa: F401  # pins the kernels of OpenBLAS, before anything imports NumPy

# All test processes, of this run and the next, find each other's compiled drivers here.
os.environ.setdefault("EQUIPOISE_CACHE", str(Path(__file__).resolve().parent / "build" / "drivers"))

collect_ignore = ["docs/reference.md"]  # its examples are those of the docstrings, which run where they stand


@pytest.fixture(autouse=True)
def run_examples_in_a_folder_of_their_own(request: pytest.FixtureRequest) -> None:
    """Documented examples may write files, but not into the repository."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


def pytest_collection_finish() -> None:
    """Modules and tests live as long as the process: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Documented examples cannot be marked where they stand; those that simulate are compiled."""
    if item.path.name == "adapters.md":
        for package in ("sklearn", "lightgbm", "vowpalwabbit"):
            if find_spec(package) is None:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not installed"))
    examples = item.dtest.examples if isinstance(item, pytest.DoctestItem) and item.dtest is not None else ()
    if any("simulate(" in example.source for example in examples):
        item.add_marker(pytest.mark.compiled)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let compiled loops run in tests marked `compiled` only, so that `make quick` never waits for the compiler."""
    compiler: Any = sys.modules.get("equipoise.simulation.compiler")
    if compiler is None or item.get_closest_marker("compiled"):
        return (yield)
    run = compiler.Driver.__call__
    compiler.Driver.__call__ = refuse_to_run
    try:
        return (yield)
    finally:
        compiler.Driver.__call__ = run


def refuse_to_run(*arguments: object) -> None:
    pytest.fail("a compiled loop is run by a test that is not marked: add @pytest.mark.compiled")
