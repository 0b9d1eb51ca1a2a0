"""The experiments on episodes: what they build, and that they run whole at a short horizon."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.bounds import LinearSqrt
from equipoise.errors import InvalidArgument
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.experiments.misspecification import error_grid
from equipoise.lab.runs.runner import run
from tools.pages.experiments import write_page
from tools.pages.findings import findings, section

SMALL: dict[str, list[dict[str, Any]]] = {
    "linear-mdp": [{"n_states": 5, "n_actions": 2, "horizon": 2, "d_max": 4, "d_star": 3}],
    "exploration-bonus": [{"constants": [0.01, 0.1]}],
    "bellman-error": [
        {"n_learners": 2},
        {"learner": "eleanor", "n_learners": 2, "n_states": 3, "horizon": 2, "dim": 2},
    ],
}
WIDTHS = {
    "exploration-bonus": "over w √T (w, the width of the range of rewards: river-swim: 12; combination-lock: 1)",
    "linear-mdp": "over w √T (w, the width of the range of rewards: 2)",
}
CASES = [(name, overrides) for name, variants in SMALL.items() for overrides in variants]


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "overrides"), CASES)
def test_experiment_runs_and_keeps_its_certificates(name: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    results = run(EXPERIMENTS[name], out=tmp_path / "run", rounds=60, seeds=1, jobs=1, overrides=overrides)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary == results.summary
    labels = list(EXPERIMENTS[name].selectors) * len(EXPERIMENTS[name].instances)
    assert [row["name"] for row in summary["selectors"]] == labels
    for row in summary["selectors"]:
        assert sum(row["plays_mean"]) == 60 and row["certificate_violations"] == 0
    page, _ = write_page(EXPERIMENTS[name], results, tmp_path)
    words = " ".join(page.read_text(encoding="utf-8").split())
    kept = findings(f"experiments/{name}.md", name)
    for part in (
        section(f"experiments/{name}.md", "Setting"),
        kept,
        WIDTHS.get(name, "over w √T (w, the width of the range of rewards"),
    ):
        assert part and " ".join(part.split()) in words


@pytest.mark.compiled
def test_linear_mdp_drops_small_learners_and_no_other() -> None:
    """One seed of the full experiment, scaled bound: d = 2 and 4 are eliminated in 10,000 episodes, d >= 8 never."""
    from equipoise.simulation.tapes import Tapes, run_on_tapes

    experiment = EXPERIMENTS["linear-mdp"]
    setup = experiment.build(experiment.defaults, 0)
    selector: Any = setup.selectors["balanced-scaled"]
    run_on_tapes(Tapes(setup.problem, setup.learners, np.array([10_000]), 0), selector)
    assert {elimination.learner.index for elimination in selector.eliminations} == {0, 1}


def test_learners_that_do_not_exist_are_refused() -> None:
    experiment = EXPERIMENTS["bellman-error"]
    with pytest.raises(InvalidArgument, match=r"^learner is 'sarsa', but must be one of lsvi-ucb, eleanor$"):
        experiment.set_up({**experiment.defaults, "learner": "sarsa"}, 0, "nearly linear")


def test_simulations_say_what_no_learner_is_told() -> None:
    linear, bellman = EXPERIMENTS["linear-mdp"], EXPERIMENTS["bellman-error"]
    setup = linear.set_up(linear.defaults, 0)
    assert setup.facts() == {"d*": 8} and setup.well_specified is not None
    assert setup.well_specified() == [False, False, True, True]
    for instance, wrong in (("exactly linear", 0), ("nearly linear", 5), ("far from linear", 7)):
        setup = bellman.set_up(bellman.defaults, 0, instance)
        assert setup.well_specified is not None and setup.well_specified().count(False) == wrong
    few = {**bellman.defaults, "learner": "eleanor", "n_learners": 2}
    facts = bellman.set_up(few, 0, "far from linear").facts()
    assert facts["eps*"] == pytest.approx(0.3, abs=0.01) and facts["greatest norm over its bound"] > 0


@pytest.mark.compiled
def test_the_excess_of_each_instance_is_in_the_width_of_its_own_returns(tmp_path: Path) -> None:
    """w is 12 and 1."""
    experiment = EXPERIMENTS["exploration-bonus"]
    widths = [experiment.set_up(experiment.defaults, 0, name).problem.reward_range[1] for name in experiment.instances]
    assert widths == [12.0, 1.0]
    overrides = {"constants": [0.001]}
    results = run(experiment, out=tmp_path / "run", rounds=2000, seeds=1, jobs=1, overrides=overrides)
    learner = {row["instance"]: row["regret_mean"] for row in results.summary["learners"]}
    for row in results.summary["selectors"]:
        width = dict(zip(experiment.instances, widths, strict=True))[row["instance"]]
        more = row["regret_mean"] - learner[row["instance"]]
        assert row["excess"] == pytest.approx(more / (width * 2000**0.5))


def test_bellman_error_has_the_papers_ladder_and_a_bound_of_its_own_learner() -> None:
    """It had 6 learners and, for LSVI-UCB, the slope H sqrt(d) eps of ELEANOR: 3 at eps = 1/2, where theorem 3.2 of Jin
    et al. has the order H^2 d eps = 18."""
    experiment = EXPERIMENTS["bellman-error"]
    setup = experiment.set_up(experiment.defaults, 0, "nearly linear")
    assert len(setup.learners) == len(error_grid(100_000, 4)) == 8
    selector: Any = setup.selectors["balanced-paper"]
    bounds = selector.bounds
    assert [bound.slope for bound in bounds] == pytest.approx([bounds[0].slope / 2**i for i in range(8)])
    assert bounds[0].slope > 18 and len({bound.coefficient for bound in bounds}) == 1
    few = experiment.set_up({**experiment.defaults, "learner": "eleanor", "n_learners": 2}, 0, "nearly linear")
    selector = few.selectors["balanced-paper"]
    assert selector.bounds[0] == LinearSqrt(3.0, 12.0)
