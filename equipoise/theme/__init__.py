"""Colors and type of everything that equipoise draws: figures, reports, pages of portfolios, the dashboard.

They stand once, in `theme.css`, as custom properties: `--learner-1` and so on are the colors of learners,
`--selector-1` those of selectors, in both cases different in lightness too, so that color-blind readers can tell them
apart.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PATH = Path(__file__).with_name("theme.css")
REPORT_PATH = Path(__file__).with_name("report.css")


@cache
def css() -> str:
    """The style sheet: properties for light and dark, and the type of text, tables and code."""
    return PATH.read_text()


@cache
def report_css() -> str:
    """The additional rules of reports: their tables, figures and quotes."""
    return REPORT_PATH.read_text()


@cache
def palette(name: str) -> tuple[str, ...]:
    """The colors `--name-1`, `--name-2` and so on of the light theme, in order.

    >>> palette("learner")[:2]
    ('#56B4E9', '#0072B2')
    """
    return tuple(re.findall(rf"--{name}-\d+: light-dark\((#[0-9A-Fa-f]{{6}}),", css()))
