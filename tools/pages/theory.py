"""docs/theory.md: every statement of the paper with its function, its check and what was measured.

The words about statements are in `equipoise.theory.statements`, the numbers come from an audit and from the measured
growth, so that one command brings the page up to date: `equipoise docs theory`.
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
`equipoise audit` simulates and compares. Each run knows the true regret of every play, so it knows which learners have
kept their bounds, and counts a violation where a promise was broken at any round. A claim is rejected if the exact
(Clopper and Pearson) {confidence:.1%} interval of its share of violations lies above its δ. “Late” runs show rewards
below the middle of their range to the selector {late_rounds} rounds, or {late_episodes} episodes, after the others.
Learners of the experiments have learned at once then, so tapes stay exact. μ* is exact where problems state it and
elsewhere an average over 20,000 draws, whose error is a few hundredths of the radius at most. In all, {runs}."""

VACUOUS = """\
- **Radius.** Deviations typically reach a quarter to a half of it (0.03 of it where rewards are quiet, 0.6 on coin
  tosses with fixed contexts). Rewards seldom have the variance that the radius allows for, the boundary pays for all
  times at once, and δ is split over two sides of all learners and of the pool; so violations are far rarer than δ.
- **Closed forms of OFUL** (`d C √n` with the printed C) exceed the number of plays for 10⁴ to 10⁶ plays. Until then
  every theorem built on them promises less than “regret is at most T”, and selectors with such bounds play in turn.
  LSVI-UCB's bound, whose constant is not even known, exceeds H per episode for 10⁴ to 10⁶ episodes.
- **thm:poly_reg and thm:sqrt_reg** with coefficients near 1 and one misspecified learner of three promise less than T
  from a thousand rounds or so on, and the regret of scheduled learners was 5 to 21 times less than they promise; with
  d = 4 and two misspecified learners of five they still say nothing at T = 10⁴ ([guarantees](guarantees.md)). The
  factor is that of Z, which counts on misspecified learners being played as often as balancing allows, and of D.
- **thm:poly_reg_gap and lem:elimination_gen_obs**: learners with a gap were out after a seventh to a fiftieth of the
  plays in the lemma, so the theorem promises 3 to 17 times the regret that was measured.
- **theorem::main_adversarial** with its constants says nothing at the horizon of the audit (10,000 for 2,000 rounds).
  Few epochs end that early, which makes the audit's claim on epochs a weak one; `equipoise run adversarial` has
  60,000 rounds. Certificates say more: 1.7 to 7 times the true regret.
- **General bound** at the plays that happened: 1.2 to 4.2 times the regret of scheduled learners. It is what a check of
  simulations should look at first."""

CERTIFICATES = """\
Certified regret beside true regret, medians over the runs in which some active learner had kept its bound until then.
The certificate of Algorithm 1 presumes random contexts, so on adversarial ones it is not offered; that of Algorithm 3
rests on its own test (see `equipoise.selectors._core.epochs`). The figure of every experiment shows both over time."""

GROWTH = """\
Learners whose regret is known exactly (`Scheduled`), one of three misspecified, T from 2¹³ to 2¹⁹, 8 seeds. Fitted is
the exponent of Reg(2T) − Reg(T), which leaves out what was lost until the misspecified learner was dropped. The rate of
the paper is fitted in the same way, since √(T ln T) and εT + √T are no pure powers over a finite range. It is an upper
bound: where the interval lies below it, terms that grow more slowly still weigh. Two rows are such: for n^(1/3) without
a gap the T^(1/3) of the well-specified learners stands beside the √T of the misspecified one, and for εn + √n each of
three learners adds its own √n to an εn that is only ten times as large at the end. How soon the rate is reached depends
on the gap: with one of 0.4 in place of 0.8 the exponents of the last four rows were 0.335, 0.496, 0.663 and 0.526, of
which all but the first were below the rate by two to five thousandths, and their intervals too."""


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
        raise UnreadableFile(f"{path} holds no JSON") from None
    if data.get("version") != VERSION or data.get("quick"):
        raise UnreadableFile(f"{path} is no full audit of version {VERSION}")
    return data


def _lines(audit: Mapping[str, Plain], rows: Sequence[Growth]) -> Iterator[str]:
    yield "# Theory, checked\n"
    yield f"{fill(INTRODUCTION, 120)}\n"
    outcome = "everything held" if audit["passed"] else "**something failed: see the audit**"
    n_looks = sum(row["runs"] for row in audit["findings"])
    counted = f"{n_looks:,} times a claim was looked at in a run, over {len(audit['subjects'])} subjects"
    known = {name: audit[name] for name in ("confidence", "late_rounds", "late_episodes")}
    words = METHOD.format(**known, runs=f"{counted}; {outcome}")
    yield f"## How it was checked\n\n{fill(words, 120)}\n"
    yield from _subjects(audit)
    yield "\nEvery control was caught, or the audit would have failed:\n"
    for control in audit["controls"]:
        yield f"- {control['control']}: by {', '.join(control['caught_by'])}"
    yield "\n## Every theorem and lemma\n"
    yield "Measured: violations of runs, and in brackets the largest share of any subject, over the claims named.\n"
    yield "| label | what it says | function | checked by | measured | corrected |"
    yield "|---|---|---|---|---|---|"
    for statement in STATEMENTS:
        yield _statement_row(statement, audit)
    yield f"\n## Where constants say nothing in practice\n\n{VACUOUS}\n"
    yield f"## Certified and true regret\n\n{fill(CERTIFICATES, 120)}\n"
    yield from _ratios(audit)
    yield f"\n## Growth\n\n{fill(GROWTH, 120)}\n"
    yield from growth.table(rows)
    yield "\n![Regret over rounds for five families of bounds, beside the paper's rates](growth.png)\n"
    yield "*Written by `equipoise docs theory`.*"


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
    """Violations over the findings that bear on the statement."""
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
    """Of the bounds of a subject."""
    return next((family for family, starts in SUBJECTS.items() if subject.startswith(starts)), "power")


def _ratios(audit: Mapping[str, Plain]) -> Iterator[str]:
    """One line per subject and selector: both horizons, rewards at once and late."""
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
