"""A plain install: NumPy is enough to serve, and whatever needs more says in one line what to install.

Every case runs in an interpreter of its own in which the packages of the extras cannot be imported.
"""

import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from equipoise.errors import EXTRAS, MissingExtra, explain_missing, require

ROOT = Path(__file__).resolve().parents[1]

# Run before the program: it makes the named packages impossible to import or find.
BLOCK = """
import sys

class Blocked:
    names = {names}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_without(packages: Iterable[str], program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in an empty folder where these packages are not installed."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(names=set(packages)) + program],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def command(*arguments: str) -> str:
    return f"from equipoise.cli import main\nmain({list(arguments)!r})\n"


SERVES = """
import numpy as np
import equipoise
from equipoise import Portfolio, bounds, certificates, learners, problems, selectors, testing, theory
from equipoise.compatibility import provided_by
from equipoise.learner import accepts

problem, rng = problems.LinearBandit(4, 3, 4), np.random.default_rng(0)

def pool():
    return [learners.OFUL(2), learners.UCB(4), learners.EpsilonGreedy(4, epsilon=0.1), learners.LinearThompson(4),
            learners.SquareCB(3), learners.Constant(1), learners.DisjointOFUL(3, arms=4), learners.LogisticUCB(4),
            learners.LogisticThompson(3)]

for portfolio in (
    Portfolio(pool()),
    Portfolio(pool(), selectors.BalancedElimination([bounds.Power(1.0)] * 9)),
):
    for _ in range(60):
        context = problem.observe(rng)
        decision = portfolio.decide(context)
        portfolio.learn(decision, problem.respond(context, decision.action, rng))
    assert sum(row.plays for row in portfolio.standing()) == 60
    assert portfolio.certificate().rounds == 60
    portfolio.save("saved")
    assert len(Portfolio.load("saved").standing()) == 9
print("served")
"""


def test_a_portfolio_of_the_packages_learners_runs_with_numpy_alone(tmp_path: Path) -> None:
    run = run_without(EXTRAS, SERVES, tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "served\n", "")


# What needs a package, the package, and programs that use it.
PUBLIC = {
    ("equipoise.simulate", "numba"): ("import equipoise\nequipoise.simulate", "from equipoise import simulate"),
    ("equipoise.rl", "gymnasium"): ("import equipoise.rl", "from equipoise.rl import RiverSwim"),
    ("equipoise.load_results", "polars"): ("import equipoise\nequipoise.load_results('.')",),
    ("equipoise.serve", "msgspec"): ("from equipoise.serve import create_app",),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "package", "program"), [(*needs, program) for needs, programs in PUBLIC.items() for program in programs]
)
def test_what_needs_an_extra_names_it(what: str, package: str, program: str, tmp_path: Path) -> None:
    run = run_without(EXTRAS, program, tmp_path)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        f"equipoise.errors.MissingExtra: {what} needs {package}, which is not installed: "
        f"pip install 'equipoise[{EXTRAS[package]}]'"
    )


COMMANDS = [
    (("list",), EXTRAS, "the command line needs typer", "cli"),
    (("run", "nested"), {"numba"}, "equipoise run needs numba", "lab"),
    (("run", "nested"), {"polars"}, "equipoise run needs polars", "lab"),
    (("run", "nested"), {"matplotlib"}, "equipoise run needs matplotlib", "lab"),
    (("suite",), {"polars"}, "equipoise suite needs polars", "lab"),
    (("audit",), {"scipy"}, "equipoise audit needs scipy", "lab"),
    (("serve", "portfolio.toml"), {"starlette"}, "equipoise serve needs starlette", "serve"),
    (("serve", "portfolio.toml"), {"msgspec", "starlette"}, "equipoise serve needs starlette", "serve"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "missing", "sentence", "extra"), COMMANDS)
def test_a_command_that_needs_an_extra_says_so_in_one_line(
    arguments: tuple[str, ...], missing: Iterable[str], sentence: str, extra: str, tmp_path: Path
) -> None:
    run = run_without(missing, command(*arguments), tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"equipoise: {sentence}, which is not installed: pip install 'equipoise[{extra}]'\n"
    assert list(tmp_path.iterdir()) == [], "nothing is begun that cannot be finished"


@pytest.mark.slow
def test_without_the_compiler_classes_are_listed_all_the_same(tmp_path: Path) -> None:
    run = run_without({"numba", "polars", "scipy", "matplotlib", "gymnasium"}, command("list"), tmp_path)
    assert run.returncode == 0
    assert "balanced-elimination" in run.stdout and "linear-bandit" in run.stdout
    assert run.stderr.count("\n") <= 1 and "Traceback" not in run.stderr


def test_the_error_says_what_to_install_in_any_process() -> None:
    error = MissingExtra("equipoise run", "polars", "lab")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert isinstance(error, ImportError)


def test_only_packages_of_extras_are_explained() -> None:
    assert explain_missing(ModuleNotFoundError(name="my_package")) is None
    explained = explain_missing(ModuleNotFoundError(name="numba.core"), "equipoise.simulate")
    assert str(explained) == ("equipoise.simulate needs numba, which is not installed: pip install 'equipoise[lab]'")
    require("this test", "numba")


ADAPTERS = """
from equipoise.adapters import VW, Exploring, LightGBM, MABWiser, Network, NeuralLinear, River, Sklearn, XGBoost
from equipoise.errors import MissingExtra

for make in (
    lambda: Sklearn({"class": "linear_model.SGDRegressor"}, dim=2),
    lambda: River({"class": "linear_model.LinearRegression"}, dim=2),
    lambda: Exploring(LightGBM(dim=2)),
    lambda: Exploring(XGBoost(dim=2)),
    lambda: VW("--squarecb", dim=2),
    lambda: NeuralLinear(Network(dim=2)),
    lambda: MABWiser({"arms": [0, 1], "policy": "UCB1"}),
):
    try:
        make()
    except MissingExtra as error:
        print(error)
"""


def test_every_adapter_says_which_extra_it_needs(tmp_path: Path) -> None:
    run = run_without(EXTRAS, ADAPTERS, tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    extras = [line.rpartition("pip install ")[2] for line in run.stdout.splitlines()]
    assert extras == [
        f"'equipoise[{name}]'" for name in ("sklearn", "river", "lightgbm", "xgboost", "vw", "torch", "mabwiser")
    ]


def test_the_client_of_the_service_needs_numpy_alone(tmp_path: Path) -> None:
    run = run_without(EXTRAS, "from equipoise.serve import Client\nprint(Client('http://x', 'y').portfolio)", tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "y\n", "")
