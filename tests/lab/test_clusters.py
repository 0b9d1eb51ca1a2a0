"""The same experiment on local processes, Dask and Ray gives the same bytes, also if a worker is killed.

The clusters are real ones of two workers on this machine; tests of a library that is not installed are skipped.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.lab.clusters import open_executor
from equipoise.lab.executor import Report, run_tasks
from equipoise.lab.experiments import Experiment, Setup
from equipoise.lab.runs.results import CURVES
from equipoise.lab.runs.runner import run
from equipoise.types import Plain
from tests.own_experiment import OWN, build
from tools.studies.clusters import CLUSTERS

CASES = [
    pytest.param(
        cluster, id=name, marks=pytest.mark.skipif(not find_spec(package), reason=f"{package} is not installed")
    )
    for name, (package, cluster) in CLUSTERS.items()
]
quiet = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


def build_after_a_loss(marker: str, settings: Mapping[str, Plain], seed: int) -> Setup:
    """Seed 1 kills its process, the first time that another process than the test builds it."""
    if seed == 1 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return build(settings, seed)


def fatal(marker: Path) -> Experiment:
    return replace(OWN, build=partial(build_after_a_loss, str(marker)))


def square(number: int, report: Report) -> int:
    report(f"number {number}", 1.0)
    return number * number


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("expected")
    run(OWN, out=folder, jobs=1)
    return (folder / CURVES).read_bytes()


@pytest.mark.slow
def test_lost_process_changes_nothing(tmp_path: Path, expected: bytes) -> None:
    shares: list[float] = []
    run(fatal(tmp_path / "killed"), out=tmp_path / "run", jobs=2, progress=lambda what, share: shares.append(share))
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "run" / CURVES).read_bytes() == expected
    assert sum(shares) == pytest.approx(1.0)


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("cluster", CASES)
def test_cluster_gives_the_same_bytes_also_if_a_worker_is_killed(cluster, tmp_path: Path, expected: bytes) -> None:
    shares: list[float] = []
    with cluster() as executor:
        run(OWN, out=tmp_path / "run", executor=executor, progress=lambda what, share: shares.append(share))
        assert sum(shares) == pytest.approx(1.0)
        assert (tmp_path / "run" / CURVES).read_bytes() == expected
        run(fatal(tmp_path / "killed"), out=tmp_path / "fatal", executor=executor)
        assert (tmp_path / "killed").exists()
        assert (tmp_path / "fatal" / CURVES).read_bytes() == expected
        with run_tasks(square, range(4), jobs=executor) as found:
            assert dict(found) == {number: number * number for number in range(4)}


def test_local_is_no_executor() -> None:
    for address in (None, "local"):
        with open_executor(address) as executor:
            assert executor is None


@pytest.mark.parametrize(
    "address", ["", "dask", "dask://", "dask://host", "dask://host:x", "spark://h:1", "ray://h:1/x"]
)
def test_bad_address_is_refused(address: str) -> None:
    with (
        pytest.raises(InvalidArgument, match=r"but must be local, dask://HOST:PORT, ray or ray://HOST:PORT$"),
        open_executor(address),
    ):
        pass


@quiet
@pytest.mark.skipif(not find_spec("distributed"), reason="distributed is not installed")
def test_cluster_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.lab.clusters.CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(EquipoiseError, match=r"no scheduler of Dask answers at 127\.0\.0\.1:9"),
        open_executor("dask://127.0.0.1:9"),
    ):
        pass
