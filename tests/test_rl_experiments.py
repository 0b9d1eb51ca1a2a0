"""The experiments on episodes: what they build, and that they run whole at a short horizon."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument
from equipoise.experiments import EXPERIMENTS
from equipoise.experiments.runner import run

SMALL: dict[str, list[dict[str, Any]]] = {
    "linear-mdp": [{"n_states": 5, "n_actions": 2, "horizon": 2, "d_max": 4, "d_star": 3}],
    "exploration-bonus": [{"constants": [0.01, 0.1]}, {"problem": "combination-lock", "constants": [0.01, 0.1]}],
    "bellman-error": [
        {"n_learners": 2},
        {"learner": "eleanor", "n_learners": 2, "n_states": 3, "horizon": 2, "dim": 2},
    ],
}
CASES = [(name, overrides) for name, variants in SMALL.items() for overrides in variants]


@pytest.mark.parametrize(("name", "overrides"), CASES)
def test_experiment_runs_and_keeps_its_certificates(name: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    results = run(EXPERIMENTS[name], out=tmp_path / "run", rounds=60, seeds=1, jobs=1, overrides=overrides)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary == results.summary
    assert [row["name"] for row in summary["selectors"]] == list(EXPERIMENTS[name].selectors)
    for row in summary["selectors"]:
        assert sum(row["plays_mean"]) == 60 and row["certificate_violations"] == 0


def test_linear_mdp_drops_small_learners_and_no_other() -> None:
    """One seed of the full experiment, scaled bound: d = 2 and d = 4 are out within 10,000 episodes, d >= 8 never."""
    from equipoise.simulate.tapes import Tapes, run_on_tapes

    experiment = EXPERIMENTS["linear-mdp"]
    setup = experiment.build(experiment.defaults, 0)
    selector = setup.selectors["balanced-scaled"]
    run_on_tapes(Tapes(setup.problem, setup.learners, np.array([10_000]), 0), selector)
    assert {elimination.learner.index for elimination in selector.eliminations} == {0, 1}


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        (
            "exploration-bonus",
            {"problem": "maze"},
            "problem is 'maze', but must be one of river-swim, combination-lock",
        ),
        ("bellman-error", {"learner": "sarsa"}, "learner is 'sarsa', but must be one of lsvi-ucb, eleanor"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        EXPERIMENTS[name].build({**EXPERIMENTS[name].defaults, **overrides}, 0)
    assert str(caught.value) == message
