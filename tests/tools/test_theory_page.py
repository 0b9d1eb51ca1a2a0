"""docs/theory.md: no statement of the paper is missing, and every function and check that it names exists."""

import doctest
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument, UnknownName, UnreadableFile
from equipoise.lab.audit.claims import CLAIMS
from equipoise.lab.experiment import reward_width
from equipoise.lab.experiments import EXPERIMENTS
from tools.pages import applications, growth, guarantees, printed
from tools.pages import theory as theory_page
from tools.pages.applications import APPLICATIONS, first_informative
from tools.pages.command import write_pages
from tools.pages.findings import findings
from tools.pages.growth import Growth
from tools.pages.statements import STATEMENTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "theory.md"

# All theorems and lemmas of the paper, by the labels in its source; it has no corollaries.
LABELS = {
    *("thm:general_regbound", "lem:balancing", "lem:regbound_nonelim", "thm:poly_reg", "thm:linTmissp"),
    *("thm:poly_reg_gap", "lem:yasin", "thm:adv_epoch_balancing_termination", "thm:adv_epoch_balancing_regret"),
    *("thm:adv_epoch_balancing_regret_ls", "theorem::main_adversarial", "lem:mustar_conc"),
    *("lem:suff_cond_elimination", "lem:general_ratio_bound", "lem:elimination_gen_obs", "lem:sqrt_ratio_bound"),
    *("thm:sqrt_reg", "lem:elimination_sqrt_obs", "thm:sqrt_reg_gap", "lem:lin_sqrt_regret_bound"),
    *("lem:mu_adv_conc", "lem:test_LHS", "thm:adv_general_regret", "lem:regret_bounds_balanced_prob"),
    *("lem:playcount_ub", "lem:LinUCB_regret_guarantee", "lem:elliptical", "lem:elliptical_random"),
    "lem:uniform_emp_bernstein",
}


def test_every_statement_of_the_paper_is_listed_once() -> None:
    assert sorted(statement.label for statement in STATEMENTS) == sorted(LABELS)
    rows = re.findall(r"^\| `((?:thm|lem|theorem):[^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(LABELS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.label)
def test_functions_and_checks_of_a_statement_exist(statement: Any) -> None:
    assert statement.functions
    assert statement.checks or statement.tests
    assert set(statement.checks) <= set(CLAIMS)
    for name in statement.functions:
        module, _, function = name.rpartition(".")
        found = getattr(importlib.import_module(module), function)
        if module.startswith("equipoise.theory.") or module == printed.__name__:
            assert statement.label in (found.__doc__ or "") or statement.label in _module_doc(found)


@pytest.mark.parametrize("module", [applications, printed], ids=lambda module: module.__name__)
def test_examples_of_printed_and_displayed_bounds_run(module: Any) -> None:
    outcome = doctest.testmod(module)
    assert outcome.failed == 0 and outcome.attempted > 0


def _module_doc(function: Any) -> str:
    return importlib.import_module(function.__module__).__doc__ or ""


def test_every_row_of_the_page_has_a_measured_result() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    column = next(line.split(" | ").index("measured") for line in lines if line.startswith("| label |"))
    for row in (line for line in lines if re.match(r"\| `(thm|lem|theorem):", line)):
        measured = row.split(" | ")[column]
        assert re.fullmatch(r"\d+ of [\d,]+ \(0\.\d{3}\)|tested|not at these rounds", measured), row


def finding(claim: str, subject: str = "nested, balanced", violations: int = 1, vacuous: int = 0) -> dict[str, Any]:
    runs = 100 if vacuous < 100 else 0
    counted = {"runs": runs, "vacuous": vacuous, "can_fail": runs > 0, "predicted": 12.0}
    return {"claim": claim, "subject": subject, "violations": violations, "share": violations / 100, **counted}


AUDIT: dict[str, Any] = {
    "version": 1,
    "claims": CLAIMS,
    "quick": False,
    "passed": True,
    "confidence": 0.999,
    "late_rounds": 200,
    "late_episodes": 40,
    "subjects": [{"kind": "experiment", "name": "nested", "instance": "", "rounds": 10, "runs": 100}],
    "findings": [finding(claim) for claim in CLAIMS]
    + [finding("closed form", "adversarial: hiding", 7)]
    + [finding("closed form", "adversarial: punishing", 0, vacuous=100)],
    "certified_over_true": [
        {"subject": "nested", "selector": "balanced-paper", "rounds": rounds, "late": late, "runs": 9}
        | {"certified": 2000.0, "true": 50.0, "ratio": None if late else 40.0}
        for late in (False, True)
        for rounds in (10, 40)
    ],
    "controls": [{"control": "bound halved", "must_be_caught_by": "declared", "caught_by": ["declared", "dropped"]}],
}


def test_page_is_written_from_an_audit_and_growth(tmp_path: Path) -> None:
    rows = [
        Growth("n^(1/2)", gap, [10.0, 14.1, 20.0, 28.2, 40.0, 56.5, 80.0], 0.5, 0.49, 0.51, rate)
        for gap, rate in ((False, 0.5), (True, 0.6))
    ]
    page, picture = theory_page.write(tmp_path, AUDIT, rows)
    text = page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "1 of 100 (0.010)" in text
    assert re.search(r"`theorem::main_adversarial`.*\| 2 of 3 rows \| 8 of 200 \(0.070\)", text)
    assert "| nested | `balanced-paper` | 10, 40 | 9 | 2,000, 2,000 | 50.0, 50.0 | 40.0, 40.0 | –, – |" in text
    assert "| bound halved | declared | declared, dropped |" in text
    assert "100 more could not fail and are not counted" in " ".join(text.split())
    assert "| closed form | 3 | 2 of 3 rows | 200 | 8 |" in text
    assert "| adversarial: punishing | closed form | 12.0 | no |" in text
    # The bound of the nested experiment is far above the 40 rounds, and says something only after some 10^8.
    assert re.search(r"\| `nested` \| 40 \| [\d,]{5,} \| 40 \| no \| 9\.6e\+07 \| 50 \|", text)
    for name in ("constants", "growth"):
        assert findings("theory.md", name) in text
        assert len(findings("theory.md", name)) > 200
    assert "| n^(1/2) | no | 0.500 [0.490, 0.510] | 0.500 | yes |" in text
    assert "| n^(1/2) | yes | 0.500 [0.490, 0.510] | 0.600 | no, slower |" in text


def test_command_writes_the_pages_of_theory_from_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, out = tmp_path / "results", tmp_path / "docs" / "experiments"
    (results / "audit").mkdir(parents=True)
    (results / "audit" / "audit.json").write_text(json.dumps(AUDIT))
    rows = [Growth("n^(1/2)", gap, [1.0, 2.0, 3.0], 0.5, 0.4, 0.6, 0.5) for gap in (False, True)]
    growth.save(rows, results / "growth.json")
    write_pages(["theory", "guarantees"], results=results, out=out, settings=["M=3"])
    written = [Path(line).name for line in capsys.readouterr().out.split()]
    assert written == ["theory.md", "growth.png", "guarantees.md"]
    assert "M = 3" in (tmp_path / "docs" / "guarantees.md").read_text(encoding="utf-8")


@pytest.mark.compiled
def test_growth_is_kept_and_measured(tmp_path: Path) -> None:
    """Small horizons; the exponents of the page are measured with large ones."""
    rows = growth.measure(7, 11, seeds=1)
    assert [(row.family, row.gap) for row in rows].count(("n^(1/3)", True)) == 1
    assert len(rows) == 9
    assert all(np.isfinite(row.exponent) and row.low <= row.exponent <= row.high for row in rows)
    growth.save(rows, tmp_path / "new" / "growth.json")
    assert growth.load(tmp_path / "new" / "growth.json") == rows
    (tmp_path / "old.json").write_text('{"version": 0}')
    with pytest.raises(UnreadableFile, match="has version 0, but must have version 1"):
        growth.load(tmp_path / "old.json")


def test_only_full_audits_make_the_page(tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    for content in ('{"version": 1, "quick": true}', '{"version": 2, "quick": false}'):
        file.write_text(content)
        with pytest.raises(UnreadableFile, match="is not a full audit of version 1"):
            theory_page.read_audit(file)
    file.write_text("nothing")
    with pytest.raises(UnreadableFile, match="does not hold JSON"):
        theory_page.read_audit(file)


def test_applications_are_those_of_the_experiments() -> None:
    """Widths and settings beside those of the experiments; the first informative T is where the bound crosses w T."""
    for application in APPLICATIONS:
        experiment = EXPERIMENTS[application.experiment]
        setup = experiment.set_up({**experiment.defaults, "rounds": 400}, 0, application.instance)
        assert application.width == reward_width(setup.problem)
        first = first_informative(application)
        if first is not None:
            assert application.guarantee(first) < application.width * first
            assert application.guarantee(int(first / 1.02)) >= application.width * int(first / 1.02)


def test_fitted_exponent_leaves_out_a_constant() -> None:
    rounds = np.array([1.0, 2.0, 4.0, 8.0])
    slope, error = growth.fitted_exponent(rounds, 7 + 3 * rounds**0.5)
    assert round(slope, 6) == 0.5 and error < 1e-9


def test_page_of_guarantees_has_every_row_of_both_tables() -> None:
    page = guarantees.page({"M": 3, "B": 1, "T": [1000]})
    assert page.count("| `thm:") == 9
    assert "T = 1,000" in page


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"Q": 1}, UnknownName, "setting of the guarantees 'Q' is unknown"),
        ({"d": 0.5}, InvalidArgument, "d is 0.5, but must be at least 1, as in the printed theorems"),
        ({"B": 5}, InvalidArgument, "B is 5, but must be a whole number from 0 to 4"),
    ],
)
def test_page_of_guarantees_refuses_impossible_settings(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        guarantees.page(settings)
