"""Words that must not occur in the package, the tools, the tests, the documentation or the text of figures.

The field's terms in US spelling, and plain words: no private metaphors. Old names live on in
the changelog, and the pages of the dashboard have a list of their own.

The figures of the documentation are pictures (PNG), whose text cannot be read back. So every function that draws one
is called with made-up results, and the text of what it draws is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from equipoise.lab.audit import audit as auditing
from equipoise.lab.audit import report
from equipoise.lab.audit.audit import Audit, Task
from equipoise.lab.audit.claims import CLAIMS, Finding
from equipoise.lab.audit.pools import FAMILIES
from equipoise.lab.report.run_figure import regret_figure
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import Scores, with_references
from equipoise.lab.suite.picture import suite_figure
from equipoise.lab.suite.suite import TABLES, Outcome
from tests.synthetic import finished_run
from tools.bench import picture as bench_picture
from tools.pages import growth

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

# The same for screens, whose words are read by people who do not know the package.
BANNED_ON_SCREENS = {
    r"\b(?:[Nn]o|[Ss]ome|[Ee]very)body\b": "say which learner or user",
    r"\b(?:goes|go) on\b|\banew\b|\b[Bb]eside\b": "continues, again, next to",
    r"\bof late\b|\blately\b|\bin all\b": "recently, total",
    r"(?<!\b[Tt]here )\b(?:is|are) no\b": "is not",
}
SCREENS = "equipoise/serve/static/"

EXCEPT = {"CHANGELOG.md", "tests/test_words.py"}  # where old names have to stand
PUBLISHED = re.compile(r"“[^”]*”|\*[^*\n]{20,}\*|\"[A-Z][^\"\n]{20,}\"")  # titles keep their spelling
PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in BANNED))
# Finds a part of whatever PATTERN finds, in less than half the time: it need not look for where words begin.
SUSPECT = re.compile("|".join(f"(?:{pattern})" for pattern in BANNED).replace(r"\b\w*", ""))


def sources() -> Iterator[Path]:
    for folder in ("equipoise", "tools", "docs", "examples", "tests"):
        for suffix in (".py", ".md", ".html", ".svg", ".toml", ".js"):
            yield from (path for path in (ROOT / folder).rglob(f"*{suffix}") if "vendor" not in path.parts)
    yield from ROOT.glob("*.md")


def file_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


FILES = sorted({file_id(path) for path in sources()} - EXCEPT)


def found_in(text: str) -> list[str]:
    """What stands in a text that must not, each with its line and what to write instead."""
    if not SUSPECT.search(text):
        return []
    return faults_of(PUBLISHED.sub(lambda title: re.sub(r"\S", "_", title[0]), text), PATTERN, BANNED)


def faults_of(text: str, pattern: re.Pattern[str], banned: dict[str, str]) -> list[str]:
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        for match in pattern.finditer(line):
            instead = next(word for rule, word in banned.items() if re.compile(rule).match(line, match.start()))
            faults.append(f"line {number}: {match[0]!r} (write: {instead})")
    return faults


def made_up_suite() -> Outcome:
    numbers, names, labels = np.random.default_rng(3), [*INSTANCES][::6], [*CONTENDERS][::5]
    learners = {name: 20.0 * numbers.uniform(1, 3, (2, 3)) for name in names}
    selectors = {label: {name: 40.0 * numbers.uniform(1, 30, 2) for name in names} for label in labels}
    scores = with_references(Scores(learners, learners, selectors, dict.fromkeys(names, 25.0)), learners)
    about = dict.fromkeys(names, 100), range(2), dict.fromkeys(names, ("a", "b", "c")), learners
    return Outcome(tuple(names), *about, dict.fromkeys(TABLES, scores), {})


def made_up_audit() -> Audit:
    findings = [Finding("nested", claim, 0.0, 0.0, 100, 1, 0.05) for claim in CLAIMS]
    tasks = [Task(kind, "nested", "", 10, 100) for kind in ("experiment", "control")]
    return Audit(tuple(auditing.Outcome(task, findings, []) for task in tasks), quick=True)


def made_up_growth() -> list[growth.Growth]:
    regrets = [10.0 * 2 ** (k / 2) for k in range(7)]
    return [growth.Growth(family, gap, regrets, 0.5, 0.49, 0.51, 0.5) for family in FAMILIES for gap in (False, True)]


# What is drawn, and some text that must be found in it.
DRAWINGS: dict[str, tuple[Callable[[Path], Figure | bytes], str]] = {
    "run": (lambda folder: regret_figure(finished_run(folder)), "learner playing alone"),
    "run of several instances": (
        lambda folder: regret_figure(finished_run(folder, instances=("calm", "wild"))),
        "Unknown to the learners",
    ),
    "suite": (lambda _: suite_figure(made_up_suite()), "Regret over that of the best learner alone"),
    "growth": (lambda _: growth.picture(made_up_growth()), "fitted exponent"),
    "audit": (lambda _: report.picture(made_up_audit()), "Share of runs that violate the claim"),
    "benchmarks": (
        lambda _: bench_picture.draw(json.loads((ROOT / "docs" / "benchmarks.json").read_bytes())),
        "Microseconds per round",
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_only_plain_words_are_drawn(name: str, tmp_path: Path, drawn: list[str]) -> None:
    draw, expected = DRAWINGS[name]
    figure = draw(tmp_path)
    if isinstance(figure, Figure):
        figure.savefig(tmp_path / "figure.png")
    assert expected in "\n".join(drawn)
    assert found_in("\n".join(drawn)) == []


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All text of the figures that would be saved during a test; nothing is rendered, which takes seconds."""
    texts: list[str] = []

    def read(figure: Figure, *arguments: object, **options: object) -> None:
        texts.extend(text.get_text() for text in figure.findobj(mpl.text.Text))

    monkeypatch.setattr(Figure, "savefig", read)
    return texts


def test_words_of_a_figure_are_found(drawn: list[str], tmp_path: Path) -> None:
    """The control: a title of an earlier figure."""
    figure = Figure()
    figure.suptitle("Darker is dearer")
    figure.savefig(tmp_path / "figure.png")
    assert found_in("\n".join(drawn)) == ["line 1: 'dearer' (write: more expensive, higher regret)"]


def test_only_plain_words_occur() -> None:
    found = {name: found_in((ROOT / name).read_text(encoding="utf-8")) for name in FILES}
    assert len(found) > 500
    assert {name: faults for name, faults in found.items() if faults} == {}


SCREEN_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in BANNED_ON_SCREENS))


def test_screens_speak_plainly() -> None:
    screens = [name for name in FILES if name.startswith(SCREENS)]
    assert len(screens) > 10 and f"{SCREENS}parts.js" in screens
    found = {
        name: faults_of((ROOT / name).read_text(encoding="utf-8"), SCREEN_PATTERN, BANNED_ON_SCREENS)
        for name in screens
    }
    assert {name: faults for name, faults in found.items() if faults} == {}
    control = "until somebody resumes it. It goes on learning; the rewards of late"
    assert len(faults_of(control, SCREEN_PATTERN, BANNED_ON_SCREENS)) == 3


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
