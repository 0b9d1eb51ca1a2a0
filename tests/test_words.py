"""Words that must not occur in the package, the tools, the documentation or the text of figures.

The field's terms in US spelling, and plain words: no private metaphors. Old names live on in
`equipoise/_deprecated.py`, in the migrations of old files and in the changelog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What must not occur, and what to write instead. Upper and lower case differ.
BANNED = {
    # Names that were
    r"NotEntitled": "IncompatibleLearner",
    r"[Ee]ntitle[a-z]*": "compatible, compatibility",
    r"\bwords\(": "describe()",
    r"check_entitled": "check_compatible",
    r"\blearner_name\(": "part_name()",
    r"\bfeel\b|\bfeels\b": "update_weights",
    r"\btake_in\b": "learn_episode",
    r"\b_?pupils\b": "the learners that learn",
    r"\bboast\w*": "overstates, claims too much",
    r"\bvouch\w*": "supports, proves",
    r"\blower_apart\b": "separate_lower",
    r"\b[Ww]orlds?\b": "setting, context kinds",
    r"\broom\(\)": "workspace()",
    r"\b(?:MOST|LEAST)_[A-Z_]+": "MAX_..., MIN_...",
    r"NEXT_TO_NOTHING": "a name that says what the number is for",
    r"\bDropped\b(?= ?[=|])": "AnyElimination",
    r"\bRealised\w*|\brealis(?:e|ed|es|ing)\b": "realized",
    r"\bequipoise docs\b": "python -m tools.pages",
    # Quaint phrases
    r"\bfor ever\b": "permanently, without end",
    r"\b[Dd]earer\b": "more expensive, higher regret",
    r"nobody is told": "unknown",
    r"middle of the night": "at construction",
    r"\b[Hh]itherto\b|\b[Tt]hereof\b|\b[Ww]hereof\b|\b[Hh]enceforth\b|\b[Ll]est\b": "plain words",
    r"\b(?:is|are) out\b(?! of)": "is eliminated, has ended",
    # Accounting, court, theater
    r"\b[Bb]ooks\b|\b[Bb]ookkeeping\b|\b[Bb]ooking\b": "state, records",
    r"\b[Bb]ooked\b(?!_)": "credited",
    r"\b[Vv]erdict\w*": "result",
    r"\b[Tt]heat(?:er|re)\b|\b[Aa]ctors?\b|\bon stage\b": "plain words",
    # US spelling
    r"\b\w*[Cc]olour\w*": "color",
    r"\b\w*[Bb]ehaviour\w*": "behavior",
    r"\b\w*[Nn]eighbour\w*": "neighbor",
    r"\b\w*[Ff]avour\w*": "favor",
    r"\b\w*[Hh]onour\w*": "honor",
    r"\b\w*[Oo]ptimis(?:e|ed|er|ers|es|ing|ation)\b": "optimize",
    r"\b\w*[Ii]nitialis\w*": "initialize",
    r"\b\w*[Rr]egularis\w*": "regularize",
    r"\b\w*[Rr]andomis\w*": "randomize",
    r"\b\w*[Nn]ormalis\w*": "normalize",
    r"\b\w*[Ss]ummaris\w*": "summarize",
    r"\b\w*[Gg]eneralis\w*": "generalize",
    r"\b\w*[Mm]inimis(?:e|ed|er|es|ing|ation)\b|\b\w*[Mm]aximis(?:e|ed|er|es|ing|ation)\b": "minimize, maximize",
    r"\b\w*[Rr]ecognis\w*|\b\w*[Oo]rganis(?:e|ed|es|ing|ation)\w*": "recognize, organize",
    r"\b\w*[Aa]nalys(?:e|ed|es|ing)\b(?<!\bAnalyses)(?<!\banalyses)": "analyze",
    r"\b\w*[Mm]odell(?:ed|ing)\b|\b\w*[Ll]abell(?:ed|ing)\b|\b\w*[Cc]ancell(?:ed|ing)\b": "modeled, labeled",
    r"\b[Cc]entre\w*|\b[Gg]rey\b|\b[Ll]icence\b|\b[Cc]atalogue\b": "center, gray, license, catalog",
}

# Where old names have to stand: aliases, names in files of older releases, the history.
EXCEPT = {"equipoise/_deprecated.py", "equipoise/storage/migrations.py", "CHANGELOG.md"}
PUBLISHED = re.compile(r"“[^”]*”|\*[^*\n]{20,}\*|\"[A-Z][^\"\n]{20,}\"")  # titles keep their spelling
PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in BANNED))


def sources() -> Iterator[Path]:
    for folder in ("equipoise", "tools", "docs", "examples"):
        for suffix in (".py", ".md", ".svg", ".html", ".toml"):
            yield from (ROOT / folder).rglob(f"*{suffix}")
    yield from ROOT.glob("*.md")


def file_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


FILES = sorted({file_id(path) for path in sources()} - EXCEPT)


def readable(path: Path) -> str:
    """The text of a file; of a drawing only what is written in it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".svg":
        return "\n".join([*re.findall(r">([^<>]+)<", text), *re.findall(r"<!--(.*?)-->", text, re.DOTALL)])
    return text


def found_in(text: str) -> list[str]:
    """What stands in a text that must not, each with its line and what to write instead."""
    text = PUBLISHED.sub(lambda title: re.sub(r"\S", "_", title[0]), text)
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        for match in PATTERN.finditer(line):
            instead = next(word for rule, word in BANNED.items() if re.compile(rule).match(line, match.start()))
            faults.append(f"line {number}: {match[0]!r} (write: {instead})")
    return faults


@pytest.mark.parametrize("name", FILES)
def test_only_plain_words_occur(name: str) -> None:
    assert found_in(readable(ROOT / name)) == []


def test_every_file_that_is_left_out_exists() -> None:
    assert [name for name in EXCEPT if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("raise NotEntitled(name)", ["NotEntitled"]),
        ("portfolio.words()", ["words("]),
        ("the optimiser's behaviour, for ever", ["optimiser", "behaviour", "for ever"]),
        ("MOST_WORDS = 200  # characters", ["MOST_WORDS"]),
        ("in other words (three words), the optimum, optimism", []),
        ("booked_plays = state.booked_plays", []),
        ("Neu (2015), *Explore no more: improved behaviour of bandits*", []),
        ("almost_all = MAX_ALMOST; live, kept = source.words  # or it is out of range", []),
    ],
)
def test_what_is_found(text: str, found: list[str]) -> None:
    assert [re.findall(r"'(.*)'", fault)[0] for fault in found_in(text)] == found
