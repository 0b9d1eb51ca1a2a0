"""Compiled drivers on disk: found again by the next process, never stale, and only in a folder that is private."""

from __future__ import annotations

import ast
import gc
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree, ignore_patterns
from types import SimpleNamespace
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
import pytest

from equipoise.kernels.marks import kernel
from equipoise.learners import Constant
from equipoise.problems import KArmedBandit
from equipoise.simulation import cache, compiler, rounds, sources
from equipoise.simulation.binding import Binding, Function
from equipoise.simulation.loops import Groups, alone
from equipoise.simulation.parts import open_run
from tests.conftest import INTERPRETED

CONFIG: Any = numba.config
pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
ROOT = Path(__file__).resolve().parents[2]

RUN_NESTED = """
import sys
from equipoise.cli import main
try:
    main(["run", "nested", "--rounds", "1000", "--seeds", "1", "--jobs", "1", "--out", sys.argv[1]])
finally:
    from equipoise.simulation.compiler import compilations
    print("compiled:", compilations())
"""
PLAY = """
import json
import numpy as np
from equipoise.learners import Constant
from equipoise.problems import KArmedBandit
from equipoise.simulation.compiler import compilations
from equipoise.simulation.tapes import Tapes
tapes = Tapes(KArmedBandit([0.5, 0.7]), [Constant(1)], np.array([50]), 0)
tapes.extend(0)
print(json.dumps([compilations(), float(tapes.rows[0, :, 0].sum())]))
"""


@pytest.mark.compiled
@pytest.mark.slow
def test_second_start_of_a_run_compiles_nothing(tmp_path: Path) -> None:
    counts = []
    for name in ("first", "second"):
        run = subprocess.run(
            [sys.executable, "-c", RUN_NESTED, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        counts.append(int(run.stdout.rpartition("compiled:")[2]))
    assert counts[1] == 0, f"compiled {counts[0]} functions, then {counts[1]}"


def play_in(folder: Path, cached: Path, **environment: str) -> tuple[int, float]:
    """Number of compilations and total reward of a new process that imports the package from a folder."""
    return started_in(folder, cached, **environment)()


def started_in(folder: Path, cached: Path, **environment: str) -> Callable[[], tuple[int, float]]:
    own = {**os.environ, "PYTHONPATH": str(folder), "EQUIPOISE_CACHE": str(cached), **environment}
    process = subprocess.Popen([sys.executable, "-c", PLAY], stdout=subprocess.PIPE, text=True, env=own, cwd=folder)

    def finish() -> tuple[int, float]:
        output, _ = process.communicate()
        compiled, reward = json.loads(output)
        return int(compiled), float(reward)

    return finish


@pytest.mark.compiled
@pytest.mark.slow
def test_an_edited_kernel_is_compiled_anew(tmp_path: Path) -> None:
    """Whether the loop calls it, or it is a constant in a module that the loop imports; edits elsewhere do not count.

    The first two processes start at once: one of them compiles, the other waits for it.
    """
    package, cached = tmp_path / "equipoise", tmp_path / "cache"
    copytree(ROOT / "equipoise", package, ignore=ignore_patterns("__pycache__"))
    counts, rewards = zip(*[finish() for finish in [started_in(tmp_path, cached) for _ in range(2)]], strict=True)
    assert min(counts) == 0 < max(counts) and rewards[0] == rewards[1]

    def edit(name: str, old: str, new: str) -> None:
        text = (package / name).read_text()
        assert text.count(old) == 1
        (package / name).write_text(text.replace(old, new))

    edit("learners/ucb.py", "from __future__", "# a remark\nfrom __future__")
    assert play_in(tmp_path, cached) == (0, rewards[0])
    edit("problems/base.py", "return 1.0 if rng.random() < mean else 0.0", "return 0.5 if rng.random() < mean else 0.0")
    compiled, halved = play_in(tmp_path, cached)
    assert compiled > 0 and halved == rewards[0] / 2
    edit("kernels/streams.py", "REWARDS = 2 << 20", "REWARDS = 5 << 20")
    compiled, shifted = play_in(tmp_path, cached)
    assert compiled > 0 and shifted != halved


@kernel
def draw_two(params: Any, workspace: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    return workspace.actions, params.means


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "drivers"))
    return tmp_path / "drivers"


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A cache with one driver, and the reward that it plays: compiled once for all tests that need a full cache."""
    folder = tmp_path_factory.mktemp("once") / "drivers"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIPOISE_CACHE", str(folder))
        return folder, play(compiler.Driver(constant_binding(), "drive"))


def constant_binding() -> Binding:
    names: dict[str, Function | bool] = {"select": rounds.select_only_learner, "deliver": rounds.write_row}
    return Groups([Constant(1)]).bind(KArmedBandit([0.5, 0.7]), names)


def play(driver: Any) -> float:
    """The total reward of fifty rounds."""
    components = alone(KArmedBandit([0.5, 0.7]), Constant(1), 0, np.empty((0, 3))).components
    run = open_run(0, np.array([50]), 1)
    assert driver(components, run, 50) == -1
    return float(run.progress.reward[0])


def machine_code(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nb[ic]"))


@pytest.mark.compiled
@pytest.mark.parametrize("damage", ["index", "data", "unnoticed", "sums", "source"])
def test_a_damaged_file_is_made_anew(folder: Path, compiled_once: tuple[Path, float], damage: str) -> None:
    binding, (full, expected) = constant_binding(), compiled_once
    copytree(full, folder)
    before = compiler.compilations()
    assert play(compiler.Driver(binding, "drive")) == expected
    assert compiler.compilations() == before, "the second driver was read from disk"
    index, data = sorted(machine_code(folder), key=lambda path: path.suffix, reverse=True)
    assert (index.suffix, data.suffix) == (".nbi", ".nbc")
    sums = next(folder.rglob(cache.SUMS))
    match damage:
        case "index":
            index.write_bytes(index.read_bytes()[:20])
        case "data":
            content = bytearray(data.read_bytes())
            content[len(content) // 2] ^= 0xFF
            data.write_bytes(content)
        case "unnoticed":  # the sums are right, but Numba can make nothing of the files
            index.write_bytes(b"nonsense")
            entry = compiler.Driver(binding, "drive")._entry
            assert entry is not None
            sums.write_text(json.dumps(entry._sums()))
        case "sums":
            sums.write_text("[")
        case "source":
            next(folder.rglob("driver_*.py")).unlink()
    assert play(compiler.Driver(binding, "drive")) == expected
    assert compiler.compilations() > before
    before = compiler.compilations()
    assert play(compiler.Driver(binding, "drive")) == expected
    assert compiler.compilations() == before


def test_key_depends_on_switches_versions_and_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binding = constant_binding()

    def key() -> str:
        entry = cache.find_entry(binding, compiler.versions())
        assert entry is not None
        return entry.folder.name

    keys = {key()}
    for changed, name, value in [
        (CONFIG, "BOUNDSCHECK", 1 - (CONFIG.BOUNDSCHECK or 0)),
        (CONFIG, "OPT", "other"),
        (numba, "__version__", "0.0"),
        (np, "__version__", "0.0"),
        (sys, "version", "4.0"),
        (llvmlite.binding, "get_host_cpu_name", lambda: "abacus"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(changed, name, value)
            keys.add(key())
    assert len(keys) == 7
    monkeypatch.setattr(CONFIG, "CACHE_DIR", "elsewhere")
    assert key() in keys


@pytest.mark.compiled
@pytest.mark.parametrize("fault", ["writable", "foreign", "file", "link", "unmakable"])
def test_a_folder_that_is_not_private_is_refused(
    folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = {
        "writable": "other users can write to it",
        "foreign": "it belongs to another user",
        "file": "File exists",
        "link": "it is not a folder",
        "unmakable": "Not a directory",
    }
    match fault:
        case "writable":
            folder.mkdir()
            folder.chmod(0o777)
        case "foreign":
            monkeypatch.setattr(os, "getuid", lambda: 12345)
        case "file":
            folder.write_text("")
        case "link":
            (folder.parent / "real").mkdir(mode=0o700)
            folder.symlink_to(folder.parent / "real")
        case "unmakable":
            folder.write_text("")
            monkeypatch.setenv("EQUIPOISE_CACHE", str(folder / "below"))
    with caplog.at_level(logging.WARNING, logger="equipoise"):
        drivers = [compiler.Driver(constant_binding(), "drive") for _ in range(2)]
    if fault == "writable":  # what follows from having no folder is the same for all faults, and takes seconds
        assert play(drivers[0]) == play(drivers[1])
    assert [driver._entry for driver in drivers] == [None, None]
    assert machine_code(folder.parent) == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("drivers are compiled at every start: the cache") and reasons[fault] in line


@pytest.mark.compiled
def test_files_are_private(compiled_once: tuple[Path, float]) -> None:
    folder, _ = compiled_once
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in folder.iterdir())


@pytest.mark.compiled
def test_machine_code_is_kept_nowhere_else(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONFIG, "CACHE_DIR", str(tmp_path / "elsewhere"))
    play(compiler.Driver(constant_binding(), "drive"))
    assert machine_code(folder) and not (tmp_path / "elsewhere").exists()
    assert str(tmp_path / "elsewhere") == CONFIG.CACHE_DIR


@pytest.mark.compiled
def test_a_kernel_without_a_file_is_compiled_in_memory(folder: Path) -> None:
    binding = constant_binding()
    inner = kernel(lambda params, workspace, rng: (workspace.actions, params.means))
    for draw in (inner, partial(draw_two)):
        names = tuple((name, draw if name == "draw" else value) for name, value in binding.names)
        assert cache.find_entry(binding._replace(names=names), compiler.versions()) is None
    names = tuple((name, inner if name == "draw" else value) for name, value in binding.names)
    assert play(compiler.Driver(binding._replace(names=names), "drive")) == play(compiler.Driver(binding, "drive"))


def test_a_source_changed_since_the_start_is_compiled_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on disk may not be what this process has imported."""
    assert cache.find_entry(constant_binding(), compiler.versions()) is not None
    monkeypatch.setattr(sources, "_process_start", lambda: 0.0)
    assert cache.find_entry(constant_binding(), compiler.versions()) is None


def test_modules_outside_of_the_package_count_with_what_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_helpers.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "own_kernels.py").write_text("import own_helpers\n")
    __import__("own_kernels")
    assert sources.reached(["own_kernels"]) == ["own_helpers", "own_kernels"]
    installed = sources.reached(["equipoise.learners.oful"])
    assert "equipoise.learners._core.ridge" in installed and not any(name.startswith("numpy") for name in installed)
    assert "equipoise.simulation.normals" in sources.reached(["equipoise.kernels.normals"])


def test_the_drivers_used_least_recently_are_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("new", "old", "oldest")):
        (folder / name).mkdir(parents=True)
        (folder / name / "data").write_bytes(b"x" * 1000)
        os.utime(folder / name, (10**9 - age, 10**9 - age))
    monkeypatch.setattr(cache, "MAX_BYTES", 2500)
    cache.prune(folder, folder / "oldest")
    assert {path.name for path in folder.iterdir()} == {"new", "oldest"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"EQUIPOISE_CACHE": "/a/b"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/equipoise"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/equipoise"),
    ],
)
def test_folder_is_named_by_the_environment(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EQUIPOISE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache.cache_folder() == Path(expected)


@pytest.mark.slow
def test_without_the_compiler_nothing_is_compiled_or_kept(tmp_path: Path) -> None:
    compiled, _ = play_in(ROOT, tmp_path / "drivers", NUMBA_DISABLE_JIT="1")
    assert compiled == 0 and not (tmp_path / "drivers").exists()


@pytest.mark.parametrize(
    ("module", "names"),
    [("numpy", {"numpy", "numpy.linalg"}), ("numpy.linalg._linalg", {"numpy.linalg"})],
)
def test_relative_imports_start_from_the_package(module: str, names: set[str]) -> None:
    """Also those of a package at the top, which is in no other package."""
    assert names <= set(sources._names(ast.parse("from . import linalg"), module))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_pauses_while_a_driver_is_compiled(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And afterwards, with an error too, it is as it was."""
    before, seen = gc.isenabled(), []

    def fail(*arguments: object) -> None:
        seen.append(gc.isenabled())
        raise MemoryError

    driver = compiler.Driver.__new__(compiler.Driver)
    monkeypatch.setattr(driver, "_native", SimpleNamespace(compile=fail), raising=False)
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(MemoryError):
            driver._compile(())
        assert seen == [False] and gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
