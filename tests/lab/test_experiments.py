"""The paper's bandit applications: every experiment runs whole, states true facts and refuses impossible settings."""

import json
from collections.abc import Mapping
from dataclasses import replace
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.bounds import Power
from equipoise.certificates.records import verify_file
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.kernels.streams import CONTEXTS, REWARDS, open_stream, seek
from equipoise.lab.experiments import EXPERIMENTS, confidence
from equipoise.lab.experiments.tracked_oful import TrackedOFUL
from equipoise.lab.report.run_report import publish
from equipoise.lab.runs.results import Results, load_results, log_rounds
from equipoise.lab.runs.runner import complete_settings, run, simulate_seed
from equipoise.lab.runs.summary import rows_of
from equipoise.learner import part_name
from equipoise.learners import OFUL
from equipoise.problems import LinearBandit
from equipoise.selectors import BalancedElimination
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.tapes import Tapes
from tools.pages.command import write_pages
from tools.pages.experiments import guarantee, write_page
from tools.pages.findings import findings, section

NAMES = ("nested", "misspecification", "confidence", "ucb-width", "context-or-not")
# As few learners as in the recorded runs: joint runs are compiled for each number, which takes longer than the runs.
TINY: dict[str, dict[str, Any]] = {
    "nested": {"d_max": 8, "d_star": 4},
    "confidence": {"dim": 3, "n_actions": 5, "kappa_min": 0.5, "assumed_noise": 0.25},
}
ROUNDS, SEEDS = 400, 2
FILES = ("report.html", "regret.png", "regret.svg", "summary.json", "curves.parquet", "eliminations.jsonl")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    """Every experiment at tiny size."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: run(
            EXPERIMENTS[name], out=folder / name, rounds=ROUNDS, seeds=SEEDS, jobs=1, overrides=TINY.get(name, {})
        )
        for name in NAMES
    }


def tiny_settings(name: str) -> dict[str, Any]:
    return complete_settings(EXPERIMENTS[name], rounds=ROUNDS, seeds=SEEDS, overrides=TINY.get(name, {}))


@pytest.mark.compiled
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs_whole_and_writes_all_files(runs: dict[str, Results], name: str) -> None:
    results, experiment = runs[name], EXPERIMENTS[name]
    paths = publish(results)
    assert {path.name for path in paths} == {*FILES, "experiment.json"}
    assert all(path.stat().st_size > 0 or path.name == "eliminations.jsonl" for path in paths)
    assert results.instances == experiment.instances
    assert verify_file(results.path / "eliminations.jsonl")[1] == []
    for instance in experiment.instances:
        setup = experiment.set_up(tiny_settings(name), 0, instance)
        learners, selectors = (rows_of(results.summary, what, instance) for what in ("learners", "selectors"))
        assert [row["name"] for row in learners] == [part_name(learner) for learner in setup.learners]
        assert [row["name"] for row in selectors] == list(experiment.selectors) == list(setup.selectors)
        curves = results.curves_of(instance)
        assert curves["seed"].unique().sort().to_list() == list(range(SEEDS))
        assert curves["round"].unique().sort().to_list() == log_rounds(ROUNDS).tolist()
        for row in selectors:
            assert sum(row["plays_mean"]) == pytest.approx(ROUNDS)
            assert row["regret_mean"] >= 0.0
    assert ("instance" in results.curves.columns) == (len(experiment.instances) > 1)


@pytest.mark.compiled
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_page_with_its_words_and_numbers(
    runs: dict[str, Results], name: str, tmp_path: Path
) -> None:
    experiment, results = EXPERIMENTS[name], runs[name]
    page, picture = write_page(experiment, results, tmp_path)
    text = page.read_text(encoding="utf-8")
    words = " ".join(text.split())
    assert picture.read_bytes().startswith(b"\x89PNG")
    setting, kept = section(f"experiments/{name}.md", "Setting"), findings(f"experiments/{name}.md", name)
    for part in (experiment.claim, experiment.section, setting, kept):
        assert part and " ".join(part.split()) in words
    assert f"equipoise run {name} --rounds {ROUNDS} --seeds {SEEDS}" in words
    assert f"]({picture.name})" in text
    for what in ("learners", "selectors"):
        for row in results.summary[what]:
            assert row["name"] in text
    assert text.count("| regret |") == len(experiment.instances)
    assert {page.name, picture.name} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.compiled
def test_shared_data_is_shared_by_the_selectors_that_are_to(runs: dict[str, Results]) -> None:
    """Same bounds, same seeds: with shared data, and without, run apart. A learner that learns from all rounds knows
    more, so the two differ; the tape of a learner alone does not."""
    results = runs["context-or-not"]
    for instance in results.instances:
        curves = results.curves_of(instance).filter(kind="selector", seed=0)
        alone, shared = (
            curves.filter(curve=label)["regret"].to_list() for label in ("balanced-scaled", "balanced-shared")
        )
        assert alone != shared


@pytest.mark.compiled
def test_results_do_not_depend_on_the_selectors_that_are_run(runs: dict[str, Results]) -> None:
    settings = {**tiny_settings("confidence"), "selectors": ["balanced-shared"]}
    alone = simulate_seed(EXPERIMENTS["confidence"], settings, 1, lambda what, rounds: None)
    for curve in alone.curves:
        rows = runs["confidence"].curves_of(curve.instance).filter(kind=curve.kind, curve=curve.name, seed=1)
        assert rows["regret"].to_list() == curve.regret.tolist()


def reference_ratio(problem: LinearBandit, kappa: float, known: Mapping[str, float], index: int, seed: int) -> float:
    """The greatest ||theta - theta*|| / beta over all prefixes of OFUL's run, everything solved afresh every round."""
    dim, theta_star, stream = problem.n_columns, problem.params.theta, open_stream(seed)
    lam, sigma, delta = known["regularization"], known["noise"], 0.01
    gram, moments, greatest = lam * np.eye(dim), np.zeros(dim), 0.0
    for n in range(ROUNDS + 1):
        theta = np.linalg.solve(gram, moments)
        log_determinant = np.linalg.slogdet(gram)[1] - dim * log(lam)
        beta = sigma * sqrt(log_determinant + 2 * log(1 / delta)) + sqrt(lam) * known["norm_bound"]
        error = theta - theta_star
        greatest = max(greatest, sqrt(error @ gram @ error) / beta)
        seek(stream, CONTEXTS + index, n)
        actions = problem.observe(stream.generator)
        widths = [sqrt(a @ np.linalg.solve(gram, a)) for a in actions]
        action = int(np.argmax(actions @ theta + kappa * beta * np.array(widths)))
        seek(stream, REWARDS + index, n)
        reward = problem.respond(actions, action, stream.generator)
        gram += np.outer(actions[action], actions[action])
        moments += actions[action] * reward
    return greatest


@pytest.mark.compiled
def test_kappa_star_is_that_of_an_independent_computation(runs: dict[str, Results]) -> None:
    settings, results = tiny_settings("confidence"), runs["confidence"]
    known = {"noise": settings["assumed_noise"], "norm_bound": 1.1, "regularization": settings["regularization"]}
    kappas, seen = [1.0, 0.5], set()
    for instance, noise in confidence.INSTANCES.items():
        stars, wrong = [], np.zeros(len(kappas))
        for seed in range(SEEDS):
            problem = LinearBandit(3, 3, 5, contexts="fixed", noise="gaussian", noise_scale=noise, seed=seed)
            ratios = [reference_ratio(problem, kappa, known, i, seed) for i, kappa in enumerate(kappas)]
            stars.append(min(kappa for kappa, ratio in zip(kappas, ratios, strict=True) if ratio <= kappa))
            wrong += [kappa < stars[-1] for kappa in kappas]
        seen |= set(stars)
        (fact,) = rows_of(results.summary, "facts", instance)
        assert (fact["name"], fact["least"], fact["greatest"]) == ("kappa*", min(stars), max(stars))
        shares = [row["well_specified_share"] for row in rows_of(results.summary, "learners", instance)]
        assert shares == pytest.approx(1 - wrong / SEEDS)
    assert seen == {1.0, 0.5}


@pytest.mark.compiled
def test_the_tracked_learner_decides_as_oful_and_measures_its_ellipsoid() -> None:
    problem = LinearBandit(4, 4, 6, noise="gaussian", noise_scale=0.3, seed=2)
    known: dict[str, Any] = {"noise": 0.5, "norm_bound": 1.1, "regularization": 0.5, "scale": 0.3}
    marks = np.array([ROUNDS + 1])
    tracked = TrackedOFUL(problem.params.theta, **known)
    tapes = [Tapes(problem, [learner], marks, 5) for learner in (tracked, OFUL(4, **known))]
    for tape in tapes:
        tape.extend(0)
    np.testing.assert_allclose(tapes[0].rows, tapes[1].rows, rtol=1e-9, atol=1e-12)
    known.pop("scale")
    assert tracked.largest_ratio == pytest.approx(reference_ratio(problem, 0.3, known, 0, 5), rel=1e-9)


def test_the_tracked_learner_measures_through_its_public_methods_too() -> None:
    """Before any play the ratio is that of the prior: sqrt(lambda) ||theta*|| / beta."""
    truth = np.array([0.6, 0.8])
    learner = TrackedOFUL(truth, noise=0.5, norm_bound=2.0, regularization=0.25, delta=0.1)
    assert learner.largest_ratio == pytest.approx(0.5 / (0.5 * sqrt(2 * log(10)) + 1.0))
    learner.learn([[1.0, 0.0]], 0, 50.0)
    theta = np.array([50.0 / 1.25, 0.0])
    gram = np.diag([1.25, 0.25])
    beta = 0.5 * sqrt(log(1.25 / 0.25) + 2 * log(10)) + 1.0
    assert learner.largest_ratio == pytest.approx(sqrt((theta - truth) @ gram @ (theta - truth)) / beta)


def test_where_no_kappa_suffices_the_largest_ratio_is_reported() -> None:
    assert confidence.smallest_valid([1.0, 0.5, 0.25], [0.3, 0.3, 0.3]) == 0.5
    assert confidence.smallest_valid([1.0, 0.5], [0.2, 0.6]) == 1.0
    assert confidence.smallest_valid([1.0, 0.5], [1.3, 1.4]) == 1.3


@pytest.mark.compiled
def test_the_true_error_is_stated_and_decides_who_presumes_too_little(runs: dict[str, Results]) -> None:
    results = runs["misspecification"]
    for instance, error in (("exactly linear", 0.0), ("nearly linear", 0.05), ("far from linear", 0.2)):
        (fact,) = rows_of(results.summary, "facts", instance)
        assert (fact["name"], fact["least"], fact["greatest"]) == ("eps*", error, error)
        for i, row in enumerate(rows_of(results.summary, "learners", instance)):
            assert row["well_specified_share"] == float(0.5**i / 2 >= error)


@pytest.mark.compiled
def test_learners_without_the_attribute_that_matters_presume_wrongly(runs: dict[str, Results]) -> None:
    results = runs["context-or-not"]
    shares = {
        instance: [row["well_specified_share"] for row in rows_of(results.summary, "learners", instance)]
        for instance in results.instances
    }
    assert list(shares.values()) == [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("confidence", {"kappa_min": 2.0}, r"kappa_min is 2.0, but must lie in \[1e-06, 1\]"),
        ("confidence", {"kappa_min": 0.0}, r"kappa_min is 0.0, but must lie in \[1e-06, 1\]"),
        ("confidence", {"assumed_noise": 0.0}, "noise is 0.0, but must be positive"),
        ("confidence", {"dim": 1}, "d_max is 1, but must be a whole number from 2 to 10000"),
        ("misspecification", {"dim": 1}, "dim is 1, but must be a whole number from 2 to 1000"),
        ("misspecification", {"bound_scale": 0.0}, "coefficient is 0.0, but must be positive"),
        ("misspecification", {"slope_scale": -1.0}, "slope is -0.5, but must not be negative"),
        ("ucb-width", {"widths": [1.0, 0.0]}, "scale is 0.0, but must be positive"),
        ("ucb-width", {"widths": []}, "bounds is empty, but must have one bound per learner"),
        ("context-or-not", {"n_part": 7}, "n_part is 7, but must be a whole number from 1 to 6"),
        ("context-or-not", {"delta": 1.5}, r"delta is 1.5, but must lie in \(0, 1\)"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_written(
    tmp_path: Path, name: str, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run(EXPERIMENTS[name], out=tmp_path / "out", rounds=10, seeds=1, jobs=1, overrides=overrides)
    assert list(tmp_path.iterdir()) == []


class Moving(LinearBandit):
    """A bandit that does not promise that its contexts are independent of what is played."""

    iid = False


@pytest.mark.compiled
def test_on_contexts_that_may_move_learners_alone_are_those_of_a_pool_of_one() -> None:
    """The runner's curves of learners alone against joint runs that hold the one learner only."""
    nested = EXPERIMENTS["nested"]

    def build(settings: Mapping[str, Any], seed: int) -> Any:
        setup = nested.build(settings, seed)
        return replace(setup, problem=Moving(8, 4, 10, seed=seed))

    settings = {**tiny_settings("nested"), "selectors": ["balanced-scaled"]}
    result = simulate_seed(replace(nested, build=build), settings, 1, lambda what, rounds: None)
    marks = log_rounds(ROUNDS)
    for curve in result.of_kind("learner"):
        (learner,) = (each for each in build(settings, 1).learners if each.name == curve.name)
        lone = BalancedElimination([Power(1.0)])
        expected, _ = run_jointly(Moving(8, 4, 10, seed=1), [learner], lone, marks, 1)
        assert curve.regret.tolist() == expected.regret.tolist()
    for curve in result.of_kind("selector"):
        assert curve.plays is not None and curve.plays[-1].sum() == ROUNDS


@pytest.mark.compiled
def test_the_guarantee_of_a_page_is_that_of_the_formula(runs: dict[str, Results]) -> None:
    """For UCB's quiet rewards all bounds are true: M c sqrt(T) + 2 M w for the least c = 2 width sqrt(K)."""
    results, experiment = runs["ucb-width"], EXPERIMENTS["ucb-width"]
    assert guarantee(experiment, results, "quiet rewards", "balanced-observed") is None
    promise = guarantee(experiment, results, "quiet rewards", "balanced-paper")
    assert promise is not None
    learners = results.curves_of("quiet rewards").filter(kind="learner")
    constant = 2 * 1.7 * 0.5 * sqrt(log(log(2 * ROUNDS)) + 0.72 * log(5.2 * 60 / 0.01)) * 2 * sqrt(30)
    kept = []
    for width in EXPERIMENTS["ucb-width"].defaults["widths"]:
        curve = learners.filter(curve=f"width {width:g}")
        limits = np.minimum(width * constant * np.sqrt(curve["round"].to_numpy()), curve["round"].to_numpy())
        if (curve["regret"].to_numpy() <= limits).all():
            kept.append(width)
    if len(kept) == 6:
        assert promise == pytest.approx(6 * kept[-1] * constant * sqrt(ROUNDS) + 12)
    else:
        assert promise > 6 * min(kept) * constant * sqrt(ROUNDS)


@pytest.mark.compiled
def test_docs_writes_pages_from_runs_with_default_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {**EXPERIMENTS["ucb-width"].defaults, "rounds": 50, "seeds": 2}
    monkeypatch.setitem(EXPERIMENTS, "ucb-width", replace(EXPERIMENTS["ucb-width"], defaults=small))
    monkeypatch.chdir(tmp_path)
    write_pages(["ucb-width"], jobs=1)
    assert capsys.readouterr().out.split() == ["docs/experiments/ucb-width.md", "docs/experiments/ucb-width.png"]
    settings = load_results(tmp_path / "results" / "docs" / "ucb-width").experiment["settings"]
    assert {key: settings[key] for key in small} == json.loads(json.dumps(small))
    with pytest.raises(UnknownName, match=r"^page 'ucb-with' is unknown; did you mean ucb-width\?$"):
        write_pages(["ucb-with"])
