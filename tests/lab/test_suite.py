"""The suite run whole, as plain Python so that nothing has to be compiled."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from equipoise.cli import main
from equipoise.lab.suite.contenders import BEST_GREEDY, CONTENDERS, ORACLE
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.suite import QUICK_INSTANCES, QUICK_ROUNDS, QUICK_SEEDS
from tools.studies.suite_targets import targets

DOCS = Path(__file__).resolve().parents[2] / "docs"
SMALL = ("--instances", "ucb-width-noisy,slow-start", "--selectors", "ucb1,exp3")


def suite(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "equipoise", "suite", "--quick", "--out", str(folder), *words]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder.parent, check=False)


def rows_in(folder: Path) -> dict[str, Any]:
    """Rows by key, without what differs from run to run."""
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    return {row["key"]: {name: row[name] for name in row if name not in ("seconds", "digest")} for row in rows}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.CompletedProcess[str]]]:
    folder = tmp_path_factory.mktemp("whole") / "out"
    yield folder, suite("--jobs", "2", "--docs", str(folder / "docs"), folder=folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two selectors on two instances, in one process."""
    folder = tmp_path_factory.mktemp("small") / "out"
    assert suite(*SMALL, "--jobs", "1", folder=folder).returncode == 0
    return folder


@pytest.mark.slow
def test_every_compatible_selector_runs_everywhere(whole: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, run = whole
    assert run.returncode == 0, run.stderr
    figures = json.loads((folder / "suite.json").read_text(encoding="utf-8"))
    assert [instance["name"] for instance in figures["instances"]] == [n for n in INSTANCES if n in QUICK_INSTANCES]
    alone, shared = figures["tables"]["alone"]["costs"], figures["tables"]["shared"]["costs"]
    references = {ORACLE, BEST_GREEDY}
    assert set(alone) == {*CONTENDERS, *references} - {"misspecification-adaptive"}  # no instance here is for it
    assert set(shared) == references | {label for label, contender in CONTENDERS.items() if contender.can_share}
    assert set(alone["uniform"]) == set(QUICK_INSTANCES)
    assert set(shared["uniform"]) == {"nested-middle", "exploration-trap", "late-rewards"}
    assert {
        place["n_instances"] for place in figures["tables"]["alone"]["leaderboard"] if place["label"] == "ucb1"
    } == {3}
    after = figures["tables"]["alone"]["regret_after_change"]
    assert {tuple(own) for own in after.values()} == {("drift-swap",)}
    swapped = figures["tables"]["alone"]["regrets"]["uniform"]["drift-swap"]
    assert 0 < after["uniform"]["drift-swap"] < sum(swapped) / QUICK_SEEDS
    assert all(one["regret"] > 0 for table in (alone, shared) for row in table.values() for one in row.values())


@pytest.mark.slow
def test_files_agree_with_each_other(whole: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """Costs in suite.json follow from the log; report, page and terminal show the leader's."""
    folder, run = whole
    figures = json.loads((folder / "suite.json").read_text(encoding="utf-8"))
    rows = [row for row in rows_in(folder).values() if row["instance"] == "nested-middle" and not row["shared"]]
    alone = [row["regrets"] for row in rows if row["selector"] == "learners"]
    earned = [row["rewards"] for row in rows if row["selector"] == "learners"]
    regrets = [row["regret"] for row in rows if row["selector"] == "ucb1"]
    assert len(alone) == len(regrets) == QUICK_SEEDS
    means = [sum(regrets_of_one) / QUICK_SEEDS for regrets_of_one in zip(*alone, strict=True)]
    best = means.index(min(means))
    regret, reward = sum(regrets) / QUICK_SEEDS, sum(row[best] for row in earned) / QUICK_SEEDS
    more = regret - means[best]
    assert figures["tables"]["alone"]["costs"]["ucb1"]["nested-middle"] == pytest.approx(
        {
            "best": means[best],
            "regret": regret,
            "ratio": regret / means[best],
            "strict": max(1.0, regret / means[best]),
            "excess": more / QUICK_ROUNDS**0.5,
            "reward_lost": more / reward,
        }
    )
    leader = next(p for p in figures["tables"]["alone"]["leaderboard"] if p["label"] in CONTENDERS)
    shown = f"{leader['ratio']['value']:.2f}"
    for text in (run.stdout, *((folder / name).read_text("utf-8") for name in ("report.html", "docs/suite.md"))):
        assert leader["label"] in text
        assert shown in text
        assert f"3 simulated bandit problems of {QUICK_ROUNDS} rounds" in " ".join(text.split())
    assert (folder / "docs" / "suite.png").stat().st_size > 5000
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "<svg" in report
    assert "http" not in report.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_the_page_lists_where_another_selector_is_better(whole: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """By the definition, from the regrets in suite.json; and the study of targets reads the same file."""
    folder, _ = whole
    figures = json.loads((folder / "suite.json").read_text(encoding="utf-8"))
    page, listed = " ".join((folder / "docs" / "suite.md").read_text(encoding="utf-8").split()), []
    for label, table in figures["tables"].items():
        expected = {}
        for name in table["costs"]["uniform"]:
            strict = {selector: max(1.0, own[name]["ratio"]) for selector, own in table["costs"].items() if name in own}
            best = min(ratio for selector, ratio in strict.items() if selector in CONTENDERS)
            if strict["counterfactual-balancing"] > 1.25 * best:
                expected[name] = strict["counterfactual-balancing"] / best
        assert {case["instance"]: case["factor"] for case in table["lower_rivals"]} == pytest.approx(expected)
        listed += [(label, name) for name in expected]
    assert page.count(" times lower.") == len(listed) > 0
    assert {line.met for line in targets(figures)} <= {True, False, None}


def test_the_guide_says_why_another_selector_is_better() -> None:
    listed = re.findall(r"^- ([\w.-]+): ", (DOCS / "suite.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    guide = (DOCS / "guide" / "choose-a-selector.md").read_text(encoding="utf-8")
    _, _, section = guide.partition("## Where another selector is better")
    assert len(set(listed)) == 8 and [name for name in listed if f"`{name}`" not in section] == []


@pytest.mark.slow
def test_any_number_of_jobs_gives_the_same(small: Path, tmp_path: Path) -> None:
    two = tmp_path / "two"
    assert suite(*SMALL, "--jobs", "2", folder=two).returncode == 0
    assert rows_in(small) == rows_in(two)
    assert len(rows_in(small)) == 2 * QUICK_SEEDS * 4  # two selectors, the learners alone and their greedy experts


@pytest.mark.slow
def test_only_what_lacks_is_computed_and_damaged_tapes_are_recorded_again(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    copytree(small, folder)
    log, tapes = folder / "results.jsonl", sorted((folder / "tapes").iterdir())
    lines, complete = log.read_text(encoding="utf-8").splitlines(keepends=True), rows_in(folder)
    written = {path: path.stat().st_mtime_ns for path in tapes}

    again = suite(*SMALL, "--jobs", "1", folder=folder)
    assert again.returncode == 0
    assert log.read_text(encoding="utf-8") == "".join(lines)

    # Results of one selector get lost, and the tapes of one seed are cut off.
    kept = [line for line in lines if json.loads(line)["selector"] != "exp3"]
    log.write_text("".join(kept), encoding="utf-8")
    tapes[0].write_bytes(tapes[0].read_bytes()[:-100])
    assert suite(*SMALL, "--jobs", "1", folder=folder).returncode == 0
    lines_now = log.read_text(encoding="utf-8").splitlines(keepends=True)
    assert lines_now[: len(kept)] == kept
    assert {json.loads(line)["selector"] for line in lines_now[len(kept) :]} == {"exp3"}
    assert rows_in(folder) == complete
    changed = {path for path in tapes if path.stat().st_mtime_ns != written[path]}
    assert changed == {tapes[0]}


@pytest.mark.slow
def test_a_second_selector_uses_the_tapes_of_the_first(tmp_path: Path) -> None:
    """And the tables show both."""
    folder = tmp_path / "out"
    first = ("--instances", "slow-start", "--jobs", "1", "--selectors")
    assert suite(*first, "uniform", folder=folder).returncode == 0
    run = suite(*first, "ucb1", folder=folder)
    figures = json.loads((folder / "suite.json").read_text(encoding="utf-8"))
    assert set(figures["tables"]["alone"]["costs"]) == {ORACLE, BEST_GREEDY, "uniform", "ucb1"}
    assert "Written:" in run.stdout
    assert not (folder.parent / "docs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--selectors", "nobody"), "selector of the suite 'nobody' is unknown"),
        (("--instances", "nowhere"), "instance 'nowhere' is unknown"),
        (("--seeds", "0"), "seeds is 0, but must"),
        (("--first-seed", "-1"), "first_seed is -1, but must"),
        (("--jobs", "-1"), "jobs is -1, but must"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["suite", "--quick", "--out", str(tmp_path / "out"), *words])
    complaint = capsys.readouterr().err
    assert end.value.code == 2
    assert complaint.startswith(f"equipoise: {message}")
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SystemExit) as end:
        main(["suite", "--quick", "--out", str(tmp_path / "file")])
    assert end.value.code == 2
    assert "cannot be made" in capsys.readouterr().err
