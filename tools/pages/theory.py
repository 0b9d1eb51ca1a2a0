"""docs/theory.md: every statement of the paper with its function, its check and what was measured.

The text of the statements is in `equipoise.theory.statements`, the numbers come from an audit and from the measured
growth. The findings are written by hand in the page and kept. `python -m tools.pages theory` writes the page again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from equipoise.errors import UnreadableFile
from equipoise.lab.audit import growth
from equipoise.lab.audit.command import VERSION
from equipoise.lab.audit.growth import Growth
from equipoise.storage.files import read_bytes, write_atomic
from equipoise.theory.statements import STATEMENTS, Statement
from equipoise.types import Config, Plain
from tools.pages.findings import findings

# The claims whose theorem depends on the family of bounds, and the beginnings of the subjects of each but powers.
BY_FAMILY = ("closed form", "gap theorem", "gap plays")
SUBJECTS = {
    "adversarial": ("adversarial",),
    "sqrt-log": ("scheduled sqrt",),
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
Learners of the experiments learn without delay, so tapes stay exact. μ* is exact where problems state it and
elsewhere an average over 20,000 draws. In all, {runs}."""

CERTIFICATES = """\
Certified regret beside true regret, medians over the runs in which some active learner had kept its bound until then.
The certificate of Algorithm 1 assumes random contexts, so it is not given for adversarial ones; that of Algorithm 3
rests on its own test (see `equipoise.selectors._core.epochs`). The figure of every experiment shows both over time."""


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
    n_checks = sum(row["runs"] for row in audit["findings"])
    counted = f"{n_checks:,} checks of a claim in a run, over {len(audit['subjects'])} subjects"
    numbers = {name: audit[name] for name in ("confidence", "late_rounds", "late_episodes")}
    method = METHOD.format(**numbers, runs=f"{counted}; {outcome}")
    yield f"## How it was checked\n\n{fill(method, 120)}\n"
    yield from _subjects(audit)
    yield "\nControls are wrong on purpose; an audit fails unless it rejects a claim of each:\n"
    for control in audit["controls"]:
        yield f"- {control['control']}: by {', '.join(control['caught_by'])}"
    yield "\n## Every theorem and lemma\n"
    yield "Measured: violations and runs over the named claims; in parentheses, the largest share of any subject.\n"
    yield "| label | what it says | function | checked by | measured | corrected |"
    yield "|---|---|---|---|---|---|"
    for statement in STATEMENTS:
        yield _statement_row(statement, audit)
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
            task["kind"], f"`{task['name']}`"
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
    """Violations over the findings about the statement."""
    own = [
        row
        for row in audit["findings"]
        if row["claim"] in statement.checks
        and (row["claim"] not in BY_FAMILY or statement.family in ("", _family(row["subject"])))
    ]
    if not own:
        return "tested"
    violations, runs = sum(row["violations"] for row in own), sum(row["runs"] for row in own)
    return f"{violations} of {runs:,} ({max(row['share'] for row in own):.3f})"


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
