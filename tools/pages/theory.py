"""docs/theory.md: every statement of the paper with its function, its check and what was measured.

The text of the statements is in `tools.pages.statements`, the numbers come from an audit and from the measured
growth. The findings are written by hand in the page and kept. `python -m tools.pages theory` writes the page again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from equipoise.errors import UnreadableFile
from equipoise.lab.audit.audit import VERSION
from equipoise.storage.files import read_bytes, write_atomic
from equipoise.types import Config, Plain
from tools.pages import applications, growth
from tools.pages.findings import findings
from tools.pages.growth import Growth
from tools.pages.statements import STATEMENTS, Statement

# The claims whose theorem depends on the family of bounds, and the beginnings of the subjects of each but powers.
BY_FAMILY = ("closed form", "gap theorem", "gap plays")
SUBJECTS = {
    "adversarial": ("adversarial",),
    "sqrt-log": ("scheduled sqrt", "ball"),
    "linear-sqrt": ("scheduled eps", "misspecification", "bellman-error"),
}


INTRODUCTION = """\
Pacchiano, Dann, Gentile and Bartlett (2020), [*Regret Bound Balancing and Elimination for Model Selection in Bandits
and RL*](https://arxiv.org/abs/2012.13045), has 29 theorems and lemmas. Here is each, by its label in the paper's
source, with the function that computes it, how it was checked and what was measured. [Theory notes](theory-notes.md)
explain the radius, the test and the certificate; [guarantees](guarantees.md) has the paper's two summary tables in
numbers."""

METHOD = """\
`equipoise audit` simulates and compares. The true regret of every play is known, so it is known which learners keep
their bounds, and a run counts as a violation where a claim fails at any round. A claim is rejected if the exact
(Clopper and Pearson) {confidence:.1%} interval of its share of violations lies above its δ. “Late” runs show rewards
below the middle of their range to the selector {late_rounds} rounds, or {late_episodes} episodes, after the others.
Learners of the experiments learn without delay there, so tapes stay exact; “in order” are joint runs in which learners
wait for late rewards, episodes that overlap included. “Sharp” are settings for Algorithms 2 and 3 in which nothing but
the noise of the rewards lies between the two sides of the test. μ* is exact where problems state it and elsewhere an
average over 20,000 draws. A run counts as a check of a claim only if the claim could fail in it: if it predicts less
than what is true of every run of that length. In all, {runs}."""

CERTIFICATES = """\
Certified regret beside true regret, medians over the runs in which some active learner had kept its bound until then.
The certificate of Algorithm 1 assumes random contexts, so it is not given for adversarial ones; that of Algorithm 3
rests on its own test (see `equipoise.selectors._core.epochs`). The figure of every experiment shows both over time."""


CAN_FAIL = """\
A row can fail if what it predicts is below what is true of every run of its length, such as a regret of w T. Rows are
the findings about one claim and one subject with one selector; in rows that can fail in some runs, only those runs are
counted."""

STATEMENTS_TEXT = """\
Measured: violations and runs over the named claims, counting runs in which they could fail; in parentheses, the largest
share of any subject. Can it fail: how many of the rows about the statement could."""

APPLICATIONS_TEXT = """\
The regret bounds that the section “Example Applications” displays, in order, evaluated with the constants of the
corrected theorems at the rounds and settings of the audit, beside the median regret of the selector with these bounds.
With a gap, Δ is a fifth of the range. For `bellman-error` C = 1, and the learner is LSVI-UCB. A bound says something
from the stated T on; before, it is above the largest regret that is possible."""


def write(folder: Path, audit: Mapping[str, Plain], rows: Sequence[Growth]) -> list[Path]:
    """Write the page and the picture of growth."""
    page, picture = folder / "theory.md", folder / "growth.png"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(picture, growth.picture(rows))
    write_atomic(page, ("\n".join(_lines(audit, rows)) + "\n").encode())
    return [page, picture]


def read_audit(path: Path) -> Config:
    """The audit.json of a full audit."""
    try:
        data: Config = json.loads(read_bytes(path))
    except ValueError:
        raise UnreadableFile(f"{path} does not hold JSON") from None
    if data.get("version") != VERSION or data.get("quick"):
        raise UnreadableFile(f"{path} is not a full audit of version {VERSION}")
    return data


def _lines(audit: Mapping[str, Plain], rows: Sequence[Growth]) -> Iterator[str]:
    yield "# Theory, checked\n"
    yield f"{fill(INTRODUCTION, 120)}\n"
    outcome = "no claim was rejected" if audit["passed"] else "**the audit failed: see its report**"
    n_checks, n_vacuous = (sum(row[key] for row in audit["findings"]) for key in ("runs", "vacuous"))
    counted = f"{n_checks:,} checks of a claim in a run, over {len(audit['subjects'])} subjects"
    counted += f" ({n_vacuous:,} more could not fail and are not counted)"
    numbers = {name: audit[name] for name in ("confidence", "late_rounds", "late_episodes")}
    method = METHOD.format(**numbers, runs=f"{counted}; {outcome}")
    yield f"## How it was checked\n\n{fill(method, 120)}\n"
    yield from _subjects(audit)
    yield "\nControls are wrong on purpose; an audit fails unless it rejects the claim that each names:\n"
    yield "| control | must be caught by | caught by |"
    yield "|---|---|---|"
    for control in audit["controls"]:
        caught = ", ".join(control["caught_by"]) or "nothing"
        yield f"| {control['control']} | {control['must_be_caught_by']} | {caught} |"
    yield f"\n## Can it fail?\n\n{fill(CAN_FAIL, 120)}\n"
    yield from _can_fail(audit)
    yield "\n## Every theorem and lemma\n"
    yield fill(STATEMENTS_TEXT, 120) + "\n"
    yield "| label | what it says | function | checked by | can it fail? | measured | corrected |"
    yield "|---|---|---|---|---|---|---|"
    for statement in STATEMENTS:
        yield _statement_row(statement, audit)
    yield f"\n## The bounds of the paper's applications\n\n{fill(APPLICATIONS_TEXT, 120)}\n"
    yield from applications.table(audit)
    yield f"\n## Where constants are vacuous in practice\n\n{findings('theory.md', 'constants')}\n"
    yield f"## Certified and true regret\n\n{fill(CERTIFICATES, 120)}\n"
    yield from _ratios(audit)
    yield f"\n## Growth\n\n{findings('theory.md', 'growth')}\n"
    yield from growth.table(rows)
    yield "\n![Regret over rounds for five families of bounds, beside the paper's rates](growth.png)\n"
    yield "*Written by `python -m tools.pages theory`.*"


def _subjects(audit: Mapping[str, Plain]) -> Iterator[str]:
    kinds: dict[tuple[str, str, int, int], int] = {}
    for task in audit["subjects"]:
        name = {"lemma": "lemmas", "control": "controls", "scheduled": "scheduled learners"}.get(
            task["kind"], f"`{task['name']}`" if task["kind"] == "experiment" else f"{task['kind']}: {task['name']}"
        )
        key = (task["kind"], name, task["rounds"], task["runs"])
        kinds[key] = kinds.get(key, 0) + 1
    yield "| subject | instances | rounds | runs of each |"
    yield "|---|---:|---:|---:|"
    for (_, name, rounds, runs), n in kinds.items():
        yield f"| {name} | {n} | {rounds:,} | {runs:,} |"


def _statement_row(statement: Statement, audit: Mapping[str, Plain]) -> str:
    functions = ", ".join(f"`{name.rpartition('.')[2]}`" for name in statement.functions)
    checks = "; ".join([*statement.checks, *([statement.tests] if statement.tests else [])])
    return (
        f"| `{statement.label}` | {statement.says} | {functions} | {checks} | {_measured(statement, audit)} | "
        f"{statement.correction or '–'} |"
    )


def _measured(statement: Statement, audit: Mapping[str, Plain]) -> str:
    """Two cells: whether the findings about the statement can fail, and violations over those that can."""
    own = [
        row
        for row in audit["findings"]
        if row["claim"] in statement.checks
        and (row["claim"] not in BY_FAMILY or statement.family in ("", _family(row["subject"])))
    ]
    checked = [row for row in own if row["can_fail"]]
    can_fail = f"{len(checked)} of {len(own)} rows" if own else "in its tests"
    if not checked:
        return f"{can_fail} | {'not at these rounds' if own else 'tested'}"
    violations, runs = sum(row["violations"] for row in checked), sum(row["runs"] for row in checked)
    return f"{can_fail} | {violations} of {runs:,} ({max(row['share'] for row in checked):.3f})"


def _can_fail(audit: Mapping[str, Plain]) -> Iterator[str]:
    """One line per claim, then the rows that cannot fail."""
    yield "| claim | rows | can it fail? | runs counted | violated |"
    yield "|---|---:|---|---:|---:|"
    vacuous = []
    for claim in audit["claims"]:
        own = [row for row in audit["findings"] if row["claim"] == claim]
        checked = [row for row in own if row["can_fail"]]
        vacuous += [row for row in own if not row["can_fail"]]
        if own:
            answer = "yes" if len(checked) == len(own) else f"{len(checked)} of {len(own)} rows"
            runs, violations = (sum(row[key] for row in checked) for key in ("runs", "violations"))
            yield f"| {claim} | {len(own)} | {answer if checked else 'no'} | {runs:,} | {violations} |"
    if vacuous:
        yield "\nRows that cannot fail at their number of rounds, with what they predict:\n"
        yield "| subject | claim | predicted | can it fail? |"
        yield "|---|---|---:|---|"
        for row in vacuous:
            yield f"| {row['subject']} | {row['claim']} | {_number(row['predicted'])} | no |"


def _family(subject: str) -> str:
    """The family of the bounds of a subject."""
    return next((family for family, starts in SUBJECTS.items() if subject.startswith(starts)), "power")


def _ratios(audit: Mapping[str, Plain]) -> Iterator[str]:
    """One line per subject and selector: both numbers of rounds, with immediate and with late rewards."""
    lines: dict[tuple[str, str], list[Mapping[str, Plain]]] = {}
    for row in audit["certified_over_true"]:
        lines.setdefault((row["subject"], row["selector"]), []).append(row)
    yield "| subject | selector | rounds | runs | certified | true | median ratio | with late rewards |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for (subject, selector), rows in lines.items():
        prompt, late = ([row for row in rows if row["late"] == kind] for kind in (False, True))
        cells = [subject, f"`{selector}`", ", ".join(f"{row['rounds']:,}" for row in prompt)]
        cells += [f"{prompt[-1]['runs']:,}"]
        cells += [", ".join(_number(row[key]) for row in prompt) for key in ("certified", "true", "ratio")]
        yield f"| {' | '.join(cells)} | {', '.join(_number(row['ratio']) for row in late) or '–'} |"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
