"""Classes of installed packages: found by their entry points, listed, loaded from files, and no danger to the rest.

The packages are written to a folder, as an installer would leave them there, and used by an interpreter of their own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from equipoise import Portfolio, errors
from equipoise.adapters import ADAPTERS
from equipoise.learners import LEARNERS
from equipoise.storage.registry import KINDS, builtin_classes, registered_classes

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ROOT / "tests" / "outside"

ENTRY_POINTS = """\
[equipoise.learners]
RunningMeans = own_bandits.own_learner:RunningMeans

[equipoise.selectors]
TurnsThenBest = own_bandits.own_selector:TurnsThenBest

[equipoise.problems]
Coins = own_bandits.own_problem:Coins
KnownCoins = own_bandits.own_problem:KnownCoins
"""

FAULTY = """\
[equipoise.learners]
Absent = faulty_bandits.absent:Absent
Crashing = faulty_bandits:Crashing
UCB = faulty_bandits:UCB
Renamed = faulty_bandits:UCB
Function = faulty_bandits:Function
RunningMeans = faulty_bandits:RunningMeans

[equipoise.problems]
Fails = faulty_bandits.failing:Fails
"""


def install(folder: Path, package: str, entry_points: str) -> None:
    """What an installer leaves of a package's metadata."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of a learner, a selector and two problems."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "own_bandits").mkdir()
    for name in ("__init__.py", "own_learner.py", "own_selector.py", "own_problem.py"):
        (folder / "own_bandits" / name).write_text((OUTSIDE / name).read_text(encoding="utf-8"), encoding="utf-8")
    install(folder, "own_bandits", ENTRY_POINTS)
    return folder


@pytest.fixture(scope="module")
def faulty_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package all of whose entry points are wrong."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty_bandits").mkdir()
    (folder / "faulty_bandits" / "__init__.py").write_text("class UCB: ...\ndef Function(): ...\n", encoding="utf-8")
    (folder / "faulty_bandits" / "failing.py").write_text("raise RuntimeError('no license')\n", encoding="utf-8")
    install(folder, "faulty_bandits", FAULTY)
    return folder


def run(program: str, folder: Path, *sites: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with the packages of these folders installed."""
    path = ":".join(map(str, (ROOT, *sites)))
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


LIST = "from equipoise.cli import main\nmain(['list'])\n"


@pytest.mark.slow
def test_classes_of_an_installed_package_are_listed(site: Path, tmp_path: Path) -> None:
    listed = run(LIST, tmp_path, site)
    assert (listed.returncode, listed.stderr) == (0, "")
    lines = [line.split(maxsplit=1) for line in listed.stdout.splitlines() if line.startswith(" ")]
    described = {line[0]: line[1] for line in lines}
    assert described["running-means"] == "Plays the action of highest mean reward, now and then any of them"
    assert described["turns-then-best"].startswith("Every `every`-th round goes to the learners in turn")
    assert described["coins"] == "Offers the same coins in every round; a reward of 1 is heads"
    assert {"known-coins", "oful", "realized-balancing", "linear-bandit"} <= described.keys()


USES = """
import numpy as np
import equipoise
from equipoise.storage.registry import registered_classes
from equipoise.testing import check_learner, check_problem, check_selector

RunningMeans = registered_classes("learners")["RunningMeans"]
TurnsThenBest = registered_classes("selectors")["TurnsThenBest"]
Coins, KnownCoins = (registered_classes("problems")[name] for name in ("Coins", "KnownCoins"))
assert RunningMeans.__module__ == "own_bandits.own_learner"

def coins(problem, context):
    return range(len(problem.chances))

assert "state survives a round trip in mid run" in check_learner(lambda: RunningMeans(6))
assert "state survives a round trip in mid run" in check_selector(lambda: TurnsThenBest(3))
assert "rewards are finite and keep to the range" in check_problem(Coins, coins)
assert "mean rewards differ by the gaps and lie in the range" in check_problem(KnownCoins, coins)

portfolio = equipoise.Portfolio([RunningMeans(3), equipoise.learners.UCB(3)], TurnsThenBest(2))
problem, rng = Coins(), np.random.default_rng(0)
for _ in range(40):
    context = problem.observe(rng)
    decision = portfolio.decide(context)
    portfolio.learn(decision, problem.respond(context, decision.action, rng))
portfolio.save("portfolio.eqp")
loaded = equipoise.Portfolio.load("portfolio.eqp")
assert type(loaded.learners[0]) is RunningMeans and type(loaded.selector) is TurnsThenBest
for _ in range(20):
    context = problem.observe(rng)
    assert portfolio.decide(context).action == loaded.decide(context).action

selector = TurnsThenBest(2)
selector.credit(selector.choose(), 1.0)
equipoise.save(selector, "selector.eqp")
assert equipoise.load("selector.eqp").state()["reward_sums"].tolist() == [1.0, 0.0]
"""


@pytest.mark.slow
def test_they_pass_their_suites_and_files_that_hold_them_load_without_objects(site: Path, tmp_path: Path) -> None:
    used = run(USES, tmp_path, site)
    assert (used.returncode, used.stderr) == (0, "")
    with pytest.raises(errors.StoreConflict, match=r"^'running means' is a RunningMeans, which is not registered"):
        Portfolio.load(tmp_path / "portfolio.eqp")  # here the package is not installed


@pytest.mark.slow
def test_entry_points_that_do_not_work_are_reported_by_name_and_break_nothing(
    site: Path, faulty_site: Path, tmp_path: Path
) -> None:
    listed = run(LIST, tmp_path, site, faulty_site)
    assert listed.returncode == 0
    described = [line.split()[0] for line in listed.stdout.splitlines() if line.startswith(" ")]
    assert {"running-means", "turns-then-best", "coins", "oful", "linear-bandit"} <= set(described)
    assert described.count("ucb") == 1
    assert not {"absent", "crashing", "renamed", "function", "fails"} & set(described)
    expected = {
        "'Absent' of equipoise.learners": "it cannot be imported: ModuleNotFoundError",
        "'Crashing' of equipoise.learners": "it cannot be imported: AttributeError",
        "'UCB' of equipoise.learners": "equipoise has a class of that name",
        "'Renamed' of equipoise.learners": "but must be a class of that name",
        "'Function' of equipoise.learners": "but must be a class of that name",
        "'RunningMeans' of equipoise.learners": "another package has a class of that name",
        "'Fails' of equipoise.problems": "it cannot be imported: RuntimeError('no license')",
    }
    lines = listed.stderr.splitlines()
    assert len(lines) == len(expected), listed.stderr
    for name, reason in expected.items():
        (line,) = (line for line in lines if f"entry point {name} " in line)
        assert line.startswith("equipoise: ") and " is ignored: " in line and reason in line


KEEPS = """
import equipoise, logging
from equipoise.storage.registry import builtin_classes, registered_classes
logging.disable()
assert registered_classes("learners").items() >= builtin_classes("learners").items()
assert registered_classes("learners")["UCB"] is equipoise.learners.UCB
portfolio = equipoise.Portfolio([equipoise.learners.UCB(2), equipoise.learners.UCB(2)])
portfolio.save("saved")
assert len(equipoise.Portfolio.load("saved").learners) == 2
"""


def test_a_package_cannot_take_the_name_of_a_class_of_the_package(faulty_site: Path, tmp_path: Path) -> None:
    kept = run(KEEPS, tmp_path, faulty_site)
    assert (kept.returncode, kept.stderr) == (0, "")


def test_a_kind_that_does_not_exist_is_refused() -> None:
    assert builtin_classes("learners") == {**LEARNERS, **ADAPTERS}
    assert all(registered_classes(kind).items() >= builtin_classes(kind).items() for kind in KINDS)
    with pytest.raises(errors.UnknownName, match=r"^kind 'bounds' is unknown"):
        registered_classes("bounds")
