"""The outcome of an audit: a table for the terminal, a picture, and a self-contained HTML page."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from html import escape
from math import isnan
from pathlib import Path

from equipoise.lab.audit.claims import CLAIMS, CONFIDENCE, Finding
from equipoise.lab.audit.command import Audit
from equipoise.lab.audit.controls import CONTROLS
from equipoise.storage.files import make_folder, write_atomic

HEAD = ("subject", "claim", "predicted", "observed", "can it fail?", "violated", "share", "allowed", "result")
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:#a00;font-weight:bold}img{max-width:100%}.wide{overflow-x:auto}"""


def cells(row: Finding) -> tuple[str, ...]:
    low, high = row.interval
    return (
        row.subject,
        row.claim,
        _number(row.predicted),
        _number(row.observed),
        can_it_fail(row.runs, row.vacuous),
        f"{row.violations} of {row.runs:,}",
        f"[{low:.3f}, {high:.3f}]",
        f"{row.delta:g}",
        "VIOLATED" if not row.holds else "holds" if row.can_fail else "not checked",
    )


def summary_rows(audit: Audit) -> Iterator[tuple[str, ...]]:
    """One line per claim over all subjects: subjects, runs, violations, the largest share, result."""
    for claim in CLAIMS:
        own = [row for row in audit.checked if row.claim == claim]
        if own:
            worst = max(own, key=lambda row: row.violations / row.runs)
            runs, violations = sum(row.runs for row in own), sum(row.violations for row in own)
            share = f"{worst.violations / worst.runs:.3f}"
            result = "holds" if all(row.holds for row in own) else "VIOLATED"
            yield claim, CLAIMS[claim], str(len(own)), f"{violations} of {runs:,}", share, result


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
    """Write audit.json, audit.png and audit.html."""
    make_folder(folder)
    image = picture(audit)
    text = json.dumps(audit.to_json(), indent=1, allow_nan=False) + "\n"
    files = {"audit.json": text.encode(), "audit.png": image, "audit.html": page(audit, image).encode()}
    for name, content in files.items():
        write_atomic(folder / name, content)
    return [folder / name for name in files]


def page(audit: Audit, image: bytes) -> str:
    """A self-contained page."""
    encoded = base64.b64encode(image).decode()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1"><title>Audit</title>'
        "",
        f"<style>{STYLE}</style><h1>Audit</h1><p>{escape(describe_outcome(audit))}</p>",
        f"<p>A claim is rejected when the exact {CONFIDENCE:.1%} interval of its share of violations lies above the "
        "allowed share. Predicted and observed are medians over runs. A finding that predicts no more than what is "
        "true of every run cannot fail, and is not counted.</p>",
        f'<img alt="Share of runs that violate each claim" src="data:image/png;base64,{encoded}">',
        "<h2>Controls</h2><ul>",
        *(f"<li>{escape(words)}</li>" for words in describe_controls(audit)),
        "</ul><h2>Certified over true regret</h2>",
        _table(
            ("subject", "selector", "rounds", "late rewards", "runs", "certified", "true", "median ratio"),
            [
                (r.subject, r.selector, f"{r.rounds:,}", "yes" if r.late else "", f"{r.runs:,}", *map(_number, r[5:]))
                for r in audit.ratios
            ],
        ),
        "<h2>Findings</h2>",
        _table(HEAD, [cells(row) for row in audit.findings]),
        "</html>",
    ]
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["<div class=wide><table><tr>", *(f"<th>{escape(name)}</th>" for name in head), "</tr>"]
    for row in rows:
        style = ' class="bad"' if "VIOLATED" in row else ""
        lines += [f"<tr{style}>", *(f"<td>{escape(cell)}</td>" for cell in row), "</tr>"]
    return "".join([*lines, "</table></div>"])


def picture(audit: Audit) -> bytes:
    """Every finding as a dot, by claim: the share of runs that violate it; controls are drawn separately."""
    from matplotlib.figure import Figure

    claims = [claim for claim in CLAIMS if any(row.claim == claim for row in audit.checked)]
    figure = Figure(figsize=(9, 0.38 * len(claims) + 1.3), layout="constrained")
    axes = figure.subplots()
    controls = [row for outcome in audit.outcomes if outcome.task.kind == "control" for row in outcome.findings]
    for rows, color, shift, label in (
        (audit.checked, "#3465a4", 0.14, "audited, with the exact interval"),
        (controls, "#d55e00", -0.18, "controls, which must be caught"),
    ):
        known = [row for row in rows if row.claim in claims and row.can_fail]
        heights = [-claims.index(row.claim) + shift for row in known]
        shares = [row.violations / row.runs for row in known]
        ends = [[share - row.interval[0] for share, row in zip(shares, known, strict=True)]]
        ends.append([row.interval[1] - share for share, row in zip(shares, known, strict=True)])
        axes.errorbar(shares, heights, xerr=ends, fmt="o", ms=4, color=color, alpha=0.5, lw=0.7, label=label)
    axes.axvline(0.05, color="#555", lw=0.8, ls="--", label="0.05")
    axes.set_yticks([-k for k in range(len(claims))], claims)
    axes.set_xlabel("Share of runs that violate the claim")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0.6 - len(claims), 0.6)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _number(value: float) -> str:
    if isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
