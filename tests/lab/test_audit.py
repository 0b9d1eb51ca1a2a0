"""The audit: what it watches is what happened, its intervals are exact, and it fails when it should.

Statistical content is the audit's own; here seeds are fixed and every number is compared with a slow reference.
"""

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from equipoise.bounds import Observed, Power
from equipoise.cli import main
from equipoise.confidence import radius_sum
from equipoise.lab.audit import audit as auditing
from equipoise.lab.audit import report
from equipoise.lab.audit.audit import Task
from equipoise.lab.audit.claims import CLAIMS, Finding, Seen, binomial_interval, findings
from equipoise.lab.audit.controls import CONTROLS, Control
from equipoise.lab.audit.judging import evaluate, run_and_evaluate
from equipoise.lab.audit.late import VALID_DELAYS
from equipoise.lab.audit.lemmas import LEMMAS
from equipoise.lab.audit.pools import FAMILIES, GAP, make_pool
from equipoise.lab.audit.sharp import SHARP
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.learner import Proposal
from equipoise.selectors import BalancedElimination
from equipoise.simulation.tapes import Tapes, run_on_tapes
from equipoise.simulation.watch import Facts, optimum_of, watch_on_tapes
from equipoise.theory.closed_forms import closed_form


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 40), (40, 40), (1, 1000), (500, 1000)])
def test_interval_is_that_of_clopper_and_pearson(k: int, n: int) -> None:
    exact = binomtest(k, n).proportion_ci(0.999, method="exact")
    assert binomial_interval(k, n) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_a_claim_is_rejected_only_when_its_interval_is_above_delta() -> None:
    def finding(violations: int, delta: float) -> Finding:
        return Finding("made up", "radius", 1.0, 1.0, 1000, violations, delta)

    assert finding(0, 0.0).holds
    assert not finding(1, 0.0).holds
    assert finding(60, 0.05).holds
    assert not finding(90, 0.05).holds
    exact = [n for n in range(101) if binomtest(n, 1000, 0.05, alternative="greater").pvalue >= 0.0005]
    assert [n for n in range(101) if finding(n, 0.05).holds] == exact


def test_findings_take_medians_and_leave_out_what_did_not_apply() -> None:
    rows = [Seen("radius", 1.0, x, x > 1) for x in (0.5, 0.7, 2.0)] + [Seen("balancing", 1.0, 1.0, False)]
    balancing, radius = findings("s", rows, 0.05)
    assert (radius.observed, radius.violations, radius.runs, radius.delta) == (0.7, 1, 3, 0.05)
    assert balancing.delta == 0.0


@pytest.fixture(scope="module")
def tapes() -> Tapes:
    pool = make_pool("n^(1/2)", gap=True)
    return Tapes(pool.problem, pool.learners, np.array([1500]), seed=4)


@pytest.mark.compiled
@pytest.mark.parametrize("late", [0, 30])
@pytest.mark.parametrize("observed", [False, True], ids=["claimed", "observed"])
def test_watched_facts_equal_those_of_a_slow_reference(tapes: Tapes, late: int, observed: bool) -> None:
    """With a radius narrow enough for eliminations, right and wrong ones."""
    bounds: list[Any] = [Power(1.0), Observed() if observed else Power(1.0), Power(0.2)]
    make = lambda: BalancedElimination(bounds, radius_scale=0.25)  # noqa: E731
    optimum = tapes.problem.optimum
    facts, state = watch_on_tapes(tapes, make(), optimum, late=late)
    slow, selector = reference(tapes, make(), optimum, late)
    for name, value in slow.items():
        assert np.asarray(getattr(facts, name)).ravel() == pytest.approx(np.ravel(value), rel=1e-9, abs=1e-9), name
    assert state.accounts["plays"].tolist() == [row.plays for row in selector.standing()]
    assert len(selector.eliminations) == int((state.accounts["eliminated_at"] > 0).sum()) > 0


def reference(tapes: Tapes, selector: BalancedElimination, optimum: float, late: int) -> tuple[dict[str, Any], Any]:
    """The same run through the public class, every fact by its definition."""
    n_learners, rounds = len(tapes.learners), tapes.rounds
    played: list[tuple[Any, float, float]] = []
    resolved: list[list[tuple[float, float]]] = [[] for _ in range(n_learners)]
    waiting: dict[int, dict[int, tuple[float, float]]] = {i: {} for i in range(n_learners)}
    shown = [False] * rounds
    facts: dict[str, Any] = {"imbalance": 0.0, "deviation": 0.0, "eliminated_kept": 0, "uncertified": -inf}
    kept, total = [True] * n_learners, 0.0
    certified, regrets = [0.0, 0.0], [0.0, 0.0]

    def deviation(pairs: list[tuple[float, float]]) -> float:
        n = len(pairs)
        off = n * optimum - sum(reward for reward, _ in pairs) - sum(gap for _, gap in pairs)
        return abs(off) / radius_sum(selector.confidence.radius, n)

    for t in range(rounds):
        choice = selector.choose()
        i = choice.learner
        reward, gap, regret = tapes.rows[i, choice.play - 1].tolist()
        selector.observe(choice, {i: Proposal(0, regret=regret)})
        played.append((choice, reward, gap))
        total += gap
        for k in dict.fromkeys((t - late, t)):
            if k < 0 or shown[k] or (k == t and late > 0 and played[t][1] < 0.5):
                continue
            shown[k] = True
            credited, got, lost = played[k]
            prefix = next((s for s in range(t + 1) if not shown[s]), t + 1)
            for s in range(1, prefix + 1):
                if s > facts.get("prefix", 0):
                    facts["deviation"] = max(facts["deviation"], deviation([p[1:] for p in played[:s]]))
            facts["prefix"] = max(prefix, facts.get("prefix", 0))
            j = credited.learner
            waiting[j][credited.play] = (got, lost)
            selector.credit(credited, got)
            while len(resolved[j]) + 1 in waiting[j]:
                resolved[j].append(waiting[j].pop(len(resolved[j]) + 1))
                facts["deviation"] = max(facts["deviation"], deviation(resolved[j]))
            lost_by_j = sum(loss for _, loss in resolved[j])
            if resolved[j]:
                account = selector.evidence.accounts[j]
                kept[j] &= lost_by_j <= account.booked_bound + 1e-9
                if late == 0:
                    active = [selector.evidence.accounts[a].regret_bound for a in selector.active]
                    facts["imbalance"] = max(facts["imbalance"], max(active) - min(active))
            gone = sum(kept[a] for a in range(n_learners) if a not in selector.active)
            facts["eliminated_kept"] = max(facts["eliminated_kept"], gone)
        certificate = selector.certificate()
        for row, mark in enumerate((rounds // 4, rounds)):
            if t + 1 == mark:
                certified[row], regrets[row] = certificate.regret_upper, total
        if t < 100 or t % 10 == 0 or t + 1 == rounds:
            n = certificate.resolved_rounds
            excess = n * (certificate.optimum_lower - optimum)
            if any(kept[a] for a in selector.active):
                below = n * (optimum - certificate.optimum_upper)
                excess = max(excess, total - certificate.regret_upper, below)
            facts["uncertified"] = max(facts["uncertified"], excess)
    del facts["prefix"]
    if late:  # bounds with pending plays are brought up to date at the next choice only
        del facts["imbalance"]
    sums = [sum(loss for _, loss in rows) for rows in resolved]
    return facts | {"kept": kept, "certified": certified, "regret": regrets, "regrets": sums}, selector


@pytest.mark.compiled
def test_watching_changes_nothing(tapes: Tapes) -> None:
    watched, driven = (BalancedElimination([Power(1.0)] * 3) for _ in range(2))
    facts, state = watch_on_tapes(tapes, watched, tapes.problem.optimum)
    curves, _ = run_on_tapes(tapes, driven)
    assert facts.regret[-1] == curves.regret[-1]
    assert facts.certified[-1] == curves.certified[-1]
    assert state.accounts["plays"].tolist() == curves.plays[-1].tolist()
    assert facts.passed_plays[1].tolist() == curves.plays[-1].tolist()  # it has passed every test


@pytest.mark.compiled
def test_optimum_is_stated_exact_or_estimated() -> None:
    pool = make_pool("n^(1/3)", gap=False)
    assert optimum_of(pool.problem, 0) == pytest.approx(0.5 * 1.0 + 0.5 * 0.4)
    width = EXPERIMENTS["ucb-width"]
    assert optimum_of(width.set_up(width.defaults, 0, "noisy rewards").problem, 0) == pytest.approx(0.7)


@pytest.mark.parametrize("family", FAMILIES)
def test_pools_are_what_they_say(family: str) -> None:
    for gap in (True, False):
        pool = make_pool(family, gap=gap)
        for n in (1, 10, 2000):
            lost = [learner.regret(n) for learner in pool.learners]
            bounds: Any = pool.selector.bounds
            claimed = [min(bound.raw(n), n) for bound in bounds]
            assert all(lost[i] <= claimed[i] + 1e-9 for i in (1, 2))
        assert lost[0] > claimed[0]
        if pool.gaps:
            assert lost[0] == pytest.approx(GAP * 2000)
        assert closed_form(pool.selector, pool.declared, 2000) is not None


@pytest.mark.compiled
def test_judge_sees_each_violation() -> None:
    """A run that kept everything, then the same with one fact changed at a time."""
    pool = make_pool("n^(1/2)", gap=True)
    tapes = Tapes(pool.problem, pool.learners, np.array([3000]), seed=1)
    facts, state = watch_on_tapes(tapes, pool.selector, pool.problem.optimum)

    def broken(changed: Facts) -> set[str]:
        rows = evaluate(pool.selector, changed, state.accounts, late=False, declared=pool.declared, gaps=pool.gaps)
        return {row.claim for row in rows if row.violated}

    assert broken(facts) == set()
    assert broken(facts._replace(imbalance=np.array([1.1]))) == {"balancing"}
    assert broken(facts._replace(deviation=np.array([1.1]))) == {"radius"}
    assert broken(facts._replace(eliminated_kept=np.array([1]))) == {"eliminated"}
    assert broken(facts._replace(uncertified=np.array([1.0]))) == {"certificate"}
    assert broken(facts._replace(kept=np.array([False, True, False]))) == {"declared"}
    assert broken(facts._replace(regret=np.array([0.0, 2999.0]))) == {"general", "closed form", "gap theorem"}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `equipoise audit --quick` writes."""
    folder = tmp_path_factory.mktemp("audit")
    with pytest.raises(SystemExit) as stopped:
        main(["audit", "--quick", "--jobs", "1", "--out", str(folder)])
    assert not stopped.value.code
    return folder


@pytest.mark.compiled
@pytest.mark.statistical
def test_quick_audit_passes_and_every_control_is_caught(quick: Path) -> None:
    found = json.loads((quick / "audit.json").read_text())
    assert found["passed"] and found["quick"]
    caught = {row["control"]: set(row["caught_by"]) for row in found["controls"]}
    assert set(caught) == set(CONTROLS) and len(CONTROLS) >= 8
    assert all(row["must_be_caught_by"] in row["caught_by"] for row in found["controls"])
    assert caught["radius too narrow"] >= {"radius"}
    assert caught["bound halved"] >= {"declared", "eliminated"}
    assert caught["units mixed up"] >= {"general", "closed form", "gap plays"}
    assert caught["context leaked"] >= {"radius", "eliminated", "certificate"}
    assert {row["claim"] for row in found["findings"]} <= set(CLAIMS)
    assert all(row["holds"] and row["share_low"] <= row["delta"] for row in found["findings"])
    assert all(row["can_fail"] == (row["runs"] > 0) for row in found["findings"])
    assert {row["late"] for row in found["certified_over_true"]} == {True, False}
    assert all(row["ratio"] > 1 for row in found["certified_over_true"])


@pytest.mark.compiled
@pytest.mark.statistical
def test_page_of_the_audit_is_self_contained(quick: Path) -> None:
    page = (quick / "audit.html").read_text()
    assert page.count("<svg") == 1
    assert "http" not in page.replace("charset", "")
    assert (quick / "audit.png").read_bytes().startswith(b"\x89PNG")


def lemma_tasks(quick: bool = False) -> list[Task]:
    return [Task("lemma", name, "", 200, 30) for name in ("play counts", "Bernstein", "noise")]


def test_audit_without_a_caught_control_fails_with_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def harmless(seed: int, rounds: int) -> Iterator[Seen]:
        yield Seen("radius", 1.0, 0.5, False)

    monkeypatch.setitem(CONTROLS, "harmless", Control(harmless, "radius"))
    monkeypatch.setattr(auditing, "tasks", lambda quick: [*lemma_tasks(), Task("control", "harmless", "", 10, 5)])
    with pytest.raises(SystemExit) as stopped:
        main(["audit", "--jobs", "1", "--out", str(tmp_path)])
    assert stopped.value.code == 1
    assert "harmless: NOT CAUGHT by radius" in capsys.readouterr().out


def test_audit_with_a_violated_claim_fails_with_code_1_and_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def violated(seed: int, rounds: int) -> Iterator[Seen]:
        yield Seen("noise", 1.0, 2.0, seed < 20)

    monkeypatch.setitem(LEMMAS, "noise", violated)
    monkeypatch.setattr(auditing, "tasks", lemma_tasks)
    with pytest.raises(SystemExit) as stopped:
        main(["audit", "--jobs", "1", "--out", str(tmp_path)])
    assert stopped.value.code == 1
    shown = capsys.readouterr()
    assert "lemma: noise: noise: 20 of 30 runs" in shown.err
    assert "1 of 3 findings contradict their claims" in shown.out


@pytest.mark.slow
def test_findings_do_not_depend_on_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "tasks", lemma_tasks)
    one, two = (auditing.run(jobs=jobs).to_json() for jobs in (1, 2))
    assert one == two
    assert report.describe_outcome(auditing.run(jobs=1)).startswith("All 3 findings agree")


def test_a_full_audit_has_every_experiment_family_lemma_and_control() -> None:
    listed = auditing.tasks()
    assert {task.name for task in listed if task.kind == "experiment"} == set(EXPERIMENTS)
    assert {task.name for task in listed if task.kind == "scheduled"} == set(FAMILIES)
    for name in EXPERIMENTS:
        runs = sum(task.runs for task in listed if task.name == name)
        assert runs >= (100 if name in (*auditing.EPISODIC, "ball") else 1000), name
    assert {task.name for task in listed if task.kind == "sharp"} == {"epoch balancing", "adversarial elimination"}
    assert {task.name for task in listed if task.kind == "in order"} == {"zeros come late", "overlapping episodes"}
    assert {task.name for task in listed if task.kind == "delays"} == set(VALID_DELAYS)
    assert {task.name for task in listed if task.kind == "control"} == set(CONTROLS)
    assert all(task.runs >= 20 for task in listed)


def test_only_runs_in_which_a_claim_could_fail_are_counted() -> None:
    """25 of the 34 closed forms of experiments predicted at least w T and were counted as checks."""
    rows = [Seen("general", 10.0, 5.0, False), Seen("general", 99.0, 6.0, False, False)]
    rows += [Seen("closed form", 99.0, 5.0, False, False)] * 3
    general, closed = findings("a subject", rows, 0.05)
    assert (general.runs, general.vacuous, general.predicted, general.can_fail) == (1, 1, 10.0, True)
    assert (closed.runs, closed.vacuous, closed.predicted, closed.can_fail) == (0, 3, 99.0, False)
    audit = auditing.Audit((auditing.Outcome(Task("lemma", "a", "", 1, 2), [general, closed], []),), quick=True)
    assert audit.checked == [general] and audit.passed
    assert report.describe_outcome(audit).startswith("All 1 findings agree")
    assert [row[4] for row in map(report.cells, audit.findings)] == ["in 1 of 2 runs", "no"]
    assert report.cells(closed)[-1] == "not checked"
    assert [row[0] for row in report.summary(audit).rows] == ["general"]


@pytest.mark.compiled
def test_claims_that_predict_the_trivial_cannot_fail() -> None:
    """In few rounds the bounds and radii of a run are above w T, and nothing could violate its claims; later some
    could. That a violation counts whatever is said about it keeps a wrong answer from hiding one."""
    answers = {}
    for rounds in (5, 3000):
        pool = make_pool("n^(1/2)", gap=True)
        tapes = Tapes(pool.problem, pool.learners, np.array([rounds]), seed=1)
        _, rows = run_and_evaluate(tapes, pool.selector, pool.problem.optimum, declared=pool.declared, gaps=pool.gaps)
        answers[rounds] = {row.claim: row.can_fail for row in rows}
    always = {"balancing"}
    assert not any(can for claim, can in answers[5].items() if claim not in always | {"declared"})
    assert all(answers[3000].values())
    hidden = findings("a subject", [Seen("radius", 1.0, 2.0, True, False)], 0.0)
    assert (hidden[0].runs, hidden[0].violations) == (1, 1)


def test_sharp_settings_see_what_the_learners_of_the_experiments_hide() -> None:
    """With the radius of Algorithm 3 removed, 120 runs with OFUL had no violation. Deterministic, by the seeds."""
    removed = [row for seed in range(10) for row in CONTROLS["radius of Algorithm 3 removed"].simulate(seed, 300)]
    assert sum(row.violated for row in removed if row.claim == "epochs") >= 8
    valid = [row for name in SHARP for seed in range(5) for row in SHARP[name](seed, 300)]
    assert not any(row.violated for row in valid)
    assert all(row.can_fail for row in valid if row.claim in ("epochs", "certificate"))
