"""The benchmark measures what it says: everyone plays the same rounds, and whoever cannot is reported with the reason.

No test looks at a time: what a busy machine needs is no fault of the code.
"""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument
from equipoise.simulation.tapes import Tapes
from tools.bench import feature_maps, linucb, machine, peer_process, peers, report
from tools.bench.command import bench
from tools.bench.contest import RIDGE, WIDTH, Rounds, average_regret, load, play, save
from tools.bench.samples import Benchmark, Line
from tools.bench.scale import QUICK, Shape
from tools.benchmarks import bare_loop, numpy_loop

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = peers.adapters(ROOT / "tools" / "benchmarks" / "peers")
SELECTION = peers.adapters(ROOT / "tools" / "benchmarks" / "selection")
LIBRARIES = ["coba", "contextualbandits", "mabwiser", "obp", "river", "vowpalwabbit"]
SHAPES = [Shape(8, 10, 400), Shape(5, 3, 200)]


def instance(shape: Shape, seed: int = 0) -> tuple[Any, Rounds]:
    problem = linucb.make_problem(shape.dim, shape.n_actions, seed)
    return problem, linucb.make_rounds(problem, shape.rounds, seed)


def arrays(rounds: Rounds) -> tuple[Any, Any, Any]:
    return rounds.table[rounds.sets], rounds.means[rounds.sets], rounds.noise


@pytest.mark.compiled
@pytest.mark.parametrize("shape", SHAPES)
def test_simulator_learner_portfolio_and_loops_make_the_same_decisions(shape: Shape) -> None:
    problem, rounds = instance(shape)
    actions = numpy_loop.loop(*arrays(rounds), WIDTH, RIDGE)
    assert len(set(actions.tolist())) > 1
    assert bare_loop.loop(*arrays(rounds), WIDTH, RIDGE).tolist() == actions.tolist()
    for steps in (linucb.LearnerSteps, linucb.lone_portfolio):
        assert play(rounds, steps(linucb.make_learner(shape.dim)))[1].tolist() == actions.tolist()

    tapes = Tapes(problem, [linucb.make_learner(shape.dim)], np.array([shape.rounds]), 0)
    tapes.extend(0)
    paid = rounds.means[rounds.sets, actions] + rounds.noise
    assert tapes.rows[0, :, 0] == pytest.approx(paid, abs=1e-12)
    assert linucb.simulate(problem, rounds, 0)[1] == pytest.approx(average_regret(rounds, actions), abs=1e-12)

    wider = numpy_loop.loop(*arrays(rounds), 2 * WIDTH, RIDGE)
    assert wider.tolist() != actions.tolist()


def test_numpy_loop_is_optimistic_least_squares() -> None:
    """Against a regression solved afresh in every round."""
    _, rounds = instance(SHAPES[1])
    features, means, noise = arrays(rounds)
    gram, response, expected = RIDGE * np.eye(5), np.zeros(5), []
    for t in range(len(noise)):
        inverse = np.linalg.inv(gram)
        theta = np.linalg.solve(gram, response)
        scores = [x @ theta + WIDTH * np.sqrt(x @ inverse @ x) for x in features[t]]
        action = int(np.argmax(scores))
        row = features[t, action]
        gram += np.outer(row, row)
        response += row * (means[t, action] + noise[t])
        expected.append(action)
    assert numpy_loop.loop(features, means, noise, WIDTH, RIDGE).tolist() == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_rewards_are_linear_both_in_the_features_and_in_the_context(seed: int) -> None:
    """One parameter vector for the features of all actions, or one per action for the context: both fit exactly, and
    as a negative control one vector for all actions does not fit the context."""
    table, means, _, _ = instance(SHAPES[0], seed)[1]
    contexts = table[:, 0]

    def misfit(rows: Any, targets: Any) -> float:
        solution = np.linalg.lstsq(rows, targets, rcond=None)[0]
        return float(np.abs(rows @ solution - targets).max())

    assert misfit(table.reshape(-1, 8), means.ravel()) < 1e-10
    assert max(misfit(contexts, means[:, k]) for k in range(10)) < 1e-10
    assert misfit(contexts, means[:, 0] - means[:, 1]) < 1e-10 < misfit(np.repeat(contexts, 10, 0), means.ravel())
    norms = np.linalg.norm(table[0], axis=1)
    assert norms.max() <= 1 + 1e-12 and len(np.unique(norms.round(9))) == 10  # nothing ties at the start
    assert means.min() >= 0.0 and means.max() <= 1.0


def test_average_regret_counts_what_was_lost() -> None:
    rounds = Rounds(np.zeros((2, 2, 1)), np.array([[0.5, 0.25], [0.0, 1.0]]), np.array([0, 1, 1]), np.zeros(3))
    assert average_regret(rounds, np.array([1, 1, 0])) == pytest.approx((0.25 + 0.0 + 1.0) / 3)


def test_rounds_survive_a_file(tmp_path: Path) -> None:
    _, rounds = instance(SHAPES[1])
    save(rounds, tmp_path / "rounds.npz")
    for one, other in zip(rounds, load(tmp_path / "rounds.npz"), strict=True):
        assert np.array_equal(one, other) and one.dtype == other.dtype


def test_without_a_checkout_the_own_rows_remain() -> None:
    assert [entry.name for entry in linucb.entries(None, None)] == [
        linucb.ENGINE,
        "equipoise, learner",
        "equipoise, portfolio",
    ]


def test_every_library_has_an_adapter() -> None:
    assert [adapter.stem for adapter in ADAPTERS] == LIBRARIES
    assert [adapter.stem.split(".")[0] for adapter in SELECTION] == ["coba", "vowpalwabbit", "vowpalwabbit"]


def test_only_the_first_two_feature_maps_differ_in_what_they_can_express() -> None:
    """Rewards are linear in the second map and not in the first; the third is larger in vain."""
    rounds = feature_maps.make_rounds(1000, 0)
    rows, means = rounds.table.reshape(-1, feature_maps.DIMS[-1]), rounds.means.ravel()
    errors = []
    for dim in feature_maps.DIMS:
        solution = np.linalg.lstsq(rows[:, :dim], means, rcond=None)[0]
        errors.append(float(np.abs(rows[:, :dim] @ solution - means).max()))
    assert errors[0] > 0.1 and max(errors[1:]) < 1e-10
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0)
    rewards = means.reshape(rounds.means.shape)[rounds.sets] + rounds.noise[:, None]
    assert rewards.min() >= 0.0 and rewards.max() <= 1.0


def test_intervals_of_regret_are_those_of_student() -> None:
    assert feature_maps.interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.302652729911275 / np.sqrt(3)))


@pytest.mark.parametrize("adapter", [*ADAPTERS, *SELECTION], ids=lambda adapter: adapter.stem)
def test_a_library_that_is_not_installed_is_reported_as_such(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed where only the checkout is searched."""
    monkeypatch.setattr(sys, "path", [str(ROOT)])
    measured = peer_process.measure(adapter, [])
    assert (measured["error"], measured["timings"]) == ("not installed", [])


def test_a_failed_installation_gives_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "failures.json").write_text('{"river": "error: no compiler"}')
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert peer_process.why_missing("river") == "could not be installed: error: no compiler"
    assert peer_process.why_missing("coba") == "not installed"


ADAPTER = """
import os, time
RUNS = "always the first action"
class Peer:
    def __init__(self, dim, n_actions, width, ridge, seed):
        self.seed = seed
    def prepare(self, actions):
        return actions
    def decide(self, context):
        return 0
    def learn(self, context, action, reward):
        {learn}
"""


def measure_made_up(tmp_path: Path, learn: str, timeout: float = 60.0) -> tuple[Line, list[Rounds]]:
    """What comes of an adapter, named after a distribution that is installed, on two seeds."""
    adapter, shape = tmp_path / "numpy.py", SHAPES[1]
    adapter.write_text(ADAPTER.format(learn=learn))
    both, paths = [instance(shape, seed)[1] for seed in (0, 1)], [tmp_path / "0.npz", tmp_path / "1.npz"]
    for rounds, path in zip(both, paths, strict=True):
        save(rounds, path)
    return peers.measure_peer(Path(sys.executable), adapter, {shape: paths}, timeout), both


def test_an_adapter_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    row, both = measure_made_up(tmp_path, "pass")
    assert (row["name"], row["version"], row["runs"]) == ("numpy", np.__version__, "always the first action")
    assert row["error"] == ""
    (result,) = row["results"]
    regrets = [average_regret(rounds, np.zeros(200, np.int64)) for rounds in both]
    assert result["regret"] == pytest.approx(np.mean(regrets), abs=1e-12)
    assert result["micros"]["measurements"] == 2
    assert (result["dim"], result["n_actions"], result["rounds"]) == SHAPES[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learn", "timeout", "error"),
    [
        ("raise ValueError('no such action')", 60.0, "ValueError: no such action"),
        ("os._exit(3)", 60.0, "ended with code 3: without a word"),
        ("time.sleep(60)", 2.0, "took more than 2 seconds"),
    ],
)
def test_a_library_that_fails_is_reported_with_the_reason(
    tmp_path: Path, learn: str, timeout: float, error: str
) -> None:
    row, _ = measure_made_up(tmp_path, learn, timeout)
    assert (row["error"], row["results"]) == (error, [])


def test_a_missing_environment_is_reported(tmp_path: Path) -> None:
    row = peers.measure_peer(tmp_path / "python", ADAPTERS[0], {}, 1.0)
    assert row["error"] == "there is no environment with other libraries; `make bench` makes one"


def test_requirements_of_the_libraries_are_pinned_and_hashed() -> None:
    text = (ROOT / "tools" / "benchmarks" / "requirements.txt").read_text(encoding="utf-8")
    pins = text.replace("\\\n", " ").strip().splitlines()
    pin = r"[a-z0-9-]+==[^\s;@/]+( ; [^:@/]+?)?(\s+--hash=sha256:[0-9a-f]{64})+"
    assert [line for line in pins if not re.fullmatch(pin, line)] == []
    assert set(LIBRARIES) <= {line.split("==")[0] for line in pins}


def test_the_command_starts_over_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    class StartedOver(BaseException):
        pass

    def execve(program: str, arguments: list[str], environment: dict[str, str]) -> None:
        raise StartedOver(arguments[1:], {name: environment[name] for name in machine.ONE_THREAD})

    for name in machine.ONE_THREAD:
        monkeypatch.setenv(name, "2")
    monkeypatch.setattr(os, "execve", execve)
    with pytest.raises(StartedOver) as started:
        bench(quick=True, yardstick=Path("loop.py"), out=Path("there"))
    words = ["--quick", "--peers", ".venv-bench/bin/python", "--yardstick", "loop.py", "--out", "there"]
    assert started.value.args == (["-m", "tools.bench", *words], machine.ONE_THREAD)
    assert not machine.has_one_thread()


def test_a_yardstick_that_is_no_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in machine.ONE_THREAD.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidArgument, match=r"^--yardstick is 'nowhere.py', but must be a Python file$"):
        bench(quick=True, yardstick=Path("nowhere.py"))


def test_ratios_are_to_the_simulator() -> None:
    shape = SHAPES[0]
    rows = [
        linucb.contender_row("slow", "", results=[linucb.shape_result(shape, [3.0, 9.0, 6.0], [0.5, 0.25, 0.75])]),
        linucb.contender_row(linucb.ENGINE, "", results=[linucb.shape_result(shape, [2.0], [0.125])]),
        linucb.contender_row("gone", "", error="not installed"),
    ]
    facts = machine.facts()
    data: Benchmark = {
        "version": 1,
        "scale": "quick",
        "machine": facts,
        "seconds": 1,
        "contest": rows,
        "selection": [],
        "figures": [],
    }
    table = report.contest_table(data)
    assert table.head == ["", "d=8, K=10: µs", "× simulator", "regret"]
    assert table.rows == [["slow", "6", "3", "0.5000"], [linucb.ENGINE, "2", "1", "0.1250"]]
    assert report.left_out(data) == ["gone: not installed"]


def bare_environment(folder: Path) -> Path:
    """The Python of an environment that has NumPy and no other library."""
    venv.create(folder, symlinks=True)
    packages = Path(np.__file__).parents[1]
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (site_packages / name).symlink_to(packages / name)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_quick_run_writes_every_part(tmp_path: Path) -> None:
    """Uncompiled, as only the structure is looked at."""
    yardstick = tmp_path / "outside.py"
    yardstick.write_text("def measure(dim, arms, rounds, repeats):\n    return 1.0, dim / arms\n")
    out = tmp_path / "written"
    words = [
        "--quick",
        "--peers",
        str(bare_environment(tmp_path / "peers")),
        "--yardstick",
        str(yardstick),
        "--out",
        str(out),
    ]
    run = subprocess.run(
        [sys.executable, "-m", "tools.bench", *words],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr
    data = json.loads((out / "benchmarks.json").read_text(encoding="utf-8"))
    assert (data["version"], data["scale"]) == (1, "quick")
    assert data["machine"]["versions"].keys() == {"equipoise", "python", "numpy", "scipy", "numba"}
    assert {"date", "processor", "cores", "load"} <= data["machine"].keys()

    own = ["yardstick", "bare loop", linucb.ENGINE, "equipoise, learner", "equipoise, portfolio", "NumPy loop"]
    assert [row["name"] for row in data["contest"]] == [*own, *LIBRARIES]
    for row in data["contest"]:
        assert (row["error"] == "not installed" and not row["results"]) == (row["name"] in LIBRARIES)
        if row["results"]:
            assert [Shape(*(result[key] for key in Shape._fields)) for result in row["results"]] == [*QUICK.shapes]
    same_job = [row["results"] for row in data["contest"] if row["name"] in own[1:]]
    for results in zip(*same_job, strict=True):
        assert {round(result["regret"], 9) for result in results} == {round(results[0]["regret"], 9)}
    assert [result["regret"] for result in data["contest"][0]["results"]] == [8 / 10, 32 / 20, 64 / 100]

    groups = list(dict.fromkeys(row["group"] for row in data["figures"]))
    assert len(groups) == 6
    assert all(row["least"] <= row["median"] <= row["greatest"] for row in data["figures"])
    text = (out / "benchmarks.md").read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles[1:] == [report.SELECTION_TITLE, *groups]
    assert all(f"- {name}: not installed" in text for name in LIBRARIES)
    assert all(f"| {name} |" in text for name in (*own, *feature_maps.ENTRIES))
    assert "quick run" in text and str(tmp_path) not in text
    assert (out / "benchmarks.png").read_bytes().startswith(b"\x89PNG")
    assert run.stdout.count("written/benchmarks.") == 3
