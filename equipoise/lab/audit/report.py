"""The outcome of an audit: a table for the terminal, a picture and a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.lab.audit.audit import Audit
from equipoise.lab.audit.claims import CLAIMS, CONFIDENCE, Finding
from equipoise.lab.audit.controls import CONTROLS
from equipoise.lab.report import drawing, kit
from equipoise.lab.report.kit import significant
from equipoise.storage.files import make_folder, write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ("subject", "claim", "predicted", "observed", "can it fail?", "violated", "share", "allowed", "result")
RATIOS = ("subject", "selector", "rounds", "late rewards", "runs", "certified", "true", "median ratio")
SUMMARY = ("claim", "", "subjects", "violated", "largest share", "result")


def cells(row: Finding) -> tuple[str, ...]:
    low, high = row.interval
    return (
        row.subject,
        row.claim,
        significant(row.predicted),
        significant(row.observed),
        can_it_fail(row.runs, row.vacuous),
        f"{row.violations} of {row.runs:,}",
        f"[{low:.3f}, {high:.3f}]",
        f"{row.delta:g}",
        "VIOLATED" if not row.holds else "holds" if row.can_fail else "not checked",
    )


def summary(audit: Audit) -> kit.Table:
    """One line per claim over all subjects: subjects, runs, violations, the largest share, result."""
    rows = []
    for claim in CLAIMS:
        own = [row for row in audit.checked if row.claim == claim]
        if own:
            worst = max(own, key=lambda row: row.violations / row.runs)
            runs, violations = sum(row.runs for row in own), sum(row.violations for row in own)
            share = f"{worst.violations / worst.runs:.3f}"
            result = "holds" if all(row.holds for row in own) else "VIOLATED"
            rows.append((claim, CLAIMS[claim], str(len(own)), f"{violations} of {runs:,}", share, result))
    return kit.Table(SUMMARY, rows, left=range(len(SUMMARY)), marks=_marks(rows))


def _marks(rows: Iterable[tuple[str, ...]]) -> dict[int, str]:
    return {i: "bad" for i, row in enumerate(rows) if "VIOLATED" in row}


def can_it_fail(runs: int, vacuous: int) -> str:
    """Whether a finding could have failed, or in how many of its runs.

    >>> can_it_fail(10, 0), can_it_fail(0, 10), can_it_fail(3, 7)
    ('yes', 'no', 'in 3 of 10 runs')
    """
    if not runs:
        return "no"
    return f"in {runs:,} of {runs + vacuous:,} runs" if vacuous else "yes"


def describe_controls(audit: Audit) -> list[str]:
    """One line per control: the claims that caught it, the one that had to first."""
    lines = []
    for name, claims in audit.caught.items():
        named = CONTROLS[name].caught_by
        others = [claim for claim in claims if claim != named]
        caught = f"caught by {named}" + (f" (also by {', '.join(others)})" if others else "")
        lines.append(f"{name}: {caught}" if named in claims else f"{name}: NOT CAUGHT by {named}")
    return lines


def describe_outcome(audit: Audit) -> str:
    n, n_vacuous = len(audit.checked), len(audit.findings) - len(audit.checked)
    if audit.passed:
        rest = f"; {n_vacuous} more could not fail and are not counted" if n_vacuous else ""
        return f"All {n} findings agree with their claims, and every control was caught{rest}."
    parts = [f"{len(audit.broken)} of {n} findings contradict their claims"] if audit.broken else []
    parts += [f"controls not caught: {', '.join(audit.missed)}"] if audit.missed else []
    return f"Failed: {'; '.join(parts)}."


def publish(audit: Audit, folder: Path) -> list[Path]:
    """Write audit.json, audit.png, audit.svg and audit.html."""
    make_folder(folder)
    svg = drawing.save_figure(picture(audit), folder / "audit.png")
    write_atomic(folder / "audit.json", kit.json_text(audit.to_json()).encode())
    write_atomic(folder / "audit.html", kit.page("Audit", _blocks(audit, svg)).encode())
    return [folder / f"audit.{suffix}" for suffix in ("json", "png", "svg", "html")]


def _blocks(audit: Audit, svg: str) -> Iterator[kit.Block | kit.Table]:
    yield kit.heading("Audit", 1)
    yield kit.paragraph(describe_outcome(audit), kind="claim")
    yield kit.paragraph(
        f"A claim is rejected when the exact {CONFIDENCE:.1%} interval of its share of violations lies above the "
        "allowed share. Predicted and observed are medians over runs. A finding that predicts no more than what is "
        "true of every run cannot fail, and is not counted."
    )
    yield kit.picture(svg, "Share of runs that violate each claim")
    yield kit.heading("Controls")
    yield kit.items([(line,) for line in describe_controls(audit)])
    yield kit.heading("Certified over true regret")
    ratios = [
        (r.subject, r.selector, f"{r.rounds:,}", "yes" if r.late else "", f"{r.runs:,}", *map(significant, r[5:]))
        for r in audit.ratios
    ]
    yield kit.Table(RATIOS, ratios, left=(0, 1, 3))
    yield kit.heading("Findings")
    findings = [cells(row) for row in audit.findings]
    yield kit.Table(HEAD, findings, left=(0, 1, 4, 8), marks=_marks(findings))


def picture(audit: Audit) -> Figure:
    """Every finding as a dot, by claim: the share of runs that violate it; controls are drawn separately."""
    from matplotlib.figure import Figure

    claims = [claim for claim in CLAIMS if any(row.claim == claim for row in audit.checked)]
    figure = Figure(figsize=(9, 0.38 * len(claims) + 1.3), layout="constrained")
    axes = figure.subplots()
    controls = [row for outcome in audit.outcomes if outcome.task.kind == "control" for row in outcome.findings]
    for rows, color, shift, label in (
        (audit.checked, drawing.COOL[1], 0.14, "audited, with the exact interval"),
        (controls, drawing.WARM[0], -0.18, "controls, which must be caught"),
    ):
        known = [row for row in rows if row.claim in claims and row.can_fail]
        heights = [-claims.index(row.claim) + shift for row in known]
        shares = [row.violations / row.runs for row in known]
        ends = [[share - row.interval[0] for share, row in zip(shares, known, strict=True)]]
        ends.append([row.interval[1] - share for share, row in zip(shares, known, strict=True)])
        axes.errorbar(shares, heights, xerr=ends, fmt="o", ms=4, color=color, alpha=0.5, lw=0.7, label=label)
    axes.axvline(0.05, color=drawing.GRAY, lw=0.8, ls="--", label="0.05")
    axes.set_yticks([-k for k in range(len(claims))], claims)
    axes.set_xlabel("Share of runs that violate the claim")
    drawing.frame(axes, grid="x", labels=None)
    axes.set_ylim(0.6 - len(claims), 0.6)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return figure
