"""The command line: what it prints, how it exits, and that wrong input gets one line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from equipoise import __version__
from equipoise.adapters import ADAPTERS
from equipoise.bounds import Power
from equipoise.cli import application, main
from equipoise.cli.app import parse_settings
from equipoise.errors import InvalidArgument
from equipoise.lab.experiment import Experiment, Setup
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.report.run_report import overview
from equipoise.lab.runs import runner
from equipoise.lab.runs.results import SeedResult, load_results
from equipoise.learners import LEARNERS
from equipoise.problems import PROBLEMS
from equipoise.selectors import SELECTORS, BalancedElimination
from equipoise.storage.registry import command_name
from tests.synthetic import LEARNERS as LEARNER_NAMES
from tests.synthetic import SELECTORS as LABELS
from tests.synthetic import finished_run, seed_result


def build(settings: Mapping[str, Any], seed: int) -> Setup:
    if settings["size"] == 13:
        raise InvalidArgument(f"size is {settings['size']}, but must not be 13")
    learners = tuple(SimpleNamespace(name=name) for name in LEARNER_NAMES)
    selectors = {label: BalancedElimination([Power(1.0)] * len(learners)) for label in LABELS}
    return Setup(SimpleNamespace(reward_range=(0.0, 1.0)), learners, selectors)


DEFAULTS = {"rounds": 1000, "seeds": 2, "size": 4}
MADE_UP = Experiment("made-up", "A made-up experiment", "Nowhere", "None.", DEFAULTS, LABELS, build)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Registers the made-up experiment; gives the list of seeds that were computed."""
    computed: list[int] = []

    def simulate_seed(
        experiment: Experiment, settings: Mapping[str, Any], seed: int, report: Callable[[str, int], None]
    ) -> SeedResult:
        computed.append(seed)
        report(f"seed {seed}", settings["rounds"] * (len(LEARNER_NAMES) + len(settings["selectors"])))
        return seed_result(seed, settings["rounds"], selectors=settings["selectors"])

    monkeypatch.setitem(EXPERIMENTS, MADE_UP.name, MADE_UP)
    monkeypatch.setattr(runner, "simulate_seed", simulate_seed)
    return computed


@pytest.fixture
def equipoise(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


def run_made_up(equipoise: Run, *arguments: str) -> tuple[int, str, str]:
    return equipoise("run", "made-up", "--jobs", "1", *arguments)


@pytest.mark.slow
def test_run_writes_all_files_and_prints_the_figures_of_the_summary(
    equipoise: Run, simulated: list[int], tmp_path: Path
) -> None:
    code, out, err = run_made_up(equipoise, "--out", "here")
    assert (code, err) == (0, "")
    results = load_results(tmp_path / "here")
    assert results.summary["seeds"] == 2
    for name, *cells in overview(results.summary).rows:
        line = next(line for line in out.splitlines() if line.startswith(f"{name} "))
        assert all(cell in line for cell in cells)
    assert "A made-up experiment (1,000 rounds, 2 seeds)" in out
    written = out.split("Written:\n")[1].split()
    assert [Path(path).name for path in written] == [
        *("report.html", "regret.png", "regret.svg", "summary.json", "curves.parquet", "eliminations.jsonl"),
        "experiment.json",
    ]
    assert all(Path(path).is_file() for path in written)


@pytest.mark.slow
def test_run_has_a_default_folder_and_resumes_there(equipoise: Run, simulated: list[int], tmp_path: Path) -> None:
    assert run_made_up(equipoise, "--seeds", "1")[0] == 0
    assert run_made_up(equipoise, "--seeds", "3")[0] == 0
    assert simulated == [0, 1, 2]
    assert load_results(tmp_path / "results" / "made-up").summary["seeds"] == 3


def test_run_passes_settings_on(equipoise: Run, simulated: list[int], tmp_path: Path) -> None:
    arguments = ["--rounds", "50", "--seeds", "1", "--selectors", f" {LABELS[1]}", "--set", "size=7", "--out", "x"]
    assert run_made_up(equipoise, *arguments)[0] == 0
    assert load_results(tmp_path / "x").experiment["settings"] == {
        **{"experiment": "made-up", "rounds": 50, "seeds": 1, "size": 7, "selectors": [LABELS[1]]}
    }
    assert [row["name"] for row in load_results(tmp_path / "x").summary["selectors"]] == [LABELS[1]]


@pytest.mark.parametrize(
    "words", [f"{LABELS[1]},{LABELS[0]}", "balanced-elimination", f"balanced-elimination,{LABELS[1]}"]
)
def test_selectors_are_given_by_label_or_name_in_any_order(simulated: list[int], words: str) -> None:
    assert runner.complete_settings(MADE_UP, selectors=words.split(","))["selectors"] == list(LABELS)


def test_progress_adds_up_to_the_whole(simulated: list[int], tmp_path: Path) -> None:
    shares: list[float] = []
    for n_runs, seeds in enumerate((2, 3, 3), start=1):  # all at once, one more, all kept
        runner.run(MADE_UP, out=tmp_path, seeds=seeds, jobs=1, progress=lambda what, share: shares.append(share))
        assert sum(shares) == pytest.approx(n_runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mad-up"], "experiment 'mad-up' is unknown; did you mean made-up?"),
        (["run", "made-up", "--set", "siez=3"], "setting of made-up 'siez' is unknown; did you mean size?"),
        (["run", "made-up", "--set", "size"], "--set is 'size', but must have the form KEY=VALUE"),
        (["run", "made-up", "--set", "=3"], "--set is '=3', but must have the form KEY=VALUE"),
        (["run", "made-up", "--set", "size=1", "--set", "size=2"], "--set gives 'size' twice, but must give it once"),
        (["run", "made-up", "--set", "size=13"], "size is 13, but must not be 13"),
        (["run", "made-up", "--selectors", "balanced-c"], "selector of made-up 'balanced-c' is unknown; did you mean"),
        (["run", "made-up", "--selectors", ""], "selector of made-up '' is unknown; did you mean"),
        (["run", "made-up", "--rounds", "0"], "rounds is 0, but must be a whole number at least 1"),
        (["run", "made-up", "--seeds", "-1"], "seeds is -1, but must be a whole number at least 1"),
        (["run", "made-up", "--jobs", "0"], "jobs is 0, but must be a whole number at least 1"),
        (["run", "made-up", "--rounds", "many"], "Invalid value for '--rounds':"),
        (["run", "made-up", "--frobnicate"], "No such option: --frobnicate"),
        (["run", "made-up", "extra"], "Got unexpected extra argument"),
        (["run"], "Missing argument"),
        (["walk"], "No such command 'walk'"),
        (["list", "arms"], "kind 'arms' is unknown; did you mean"),
        (["verify", "nowhere.jsonl"], "'nowhere.jsonl' cannot be read: No such file or directory"),
        (["verify", "."], "'.' has no eliminations.jsonl, so it is not the folder of a finished run"),
    ],
)
def test_wrong_input_gets_one_line_and_exit_code_2(
    equipoise: Run, simulated: list[int], tmp_path: Path, arguments: list[str], message: str
) -> None:
    code, out, err = equipoise(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"equipoise: {message}")
    assert err.count("\n") == 1
    assert simulated == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_settings_is_refused(equipoise: Run, simulated: list[int]) -> None:
    assert run_made_up(equipoise)[0] == 0
    code, out, err = run_made_up(equipoise, "--rounds", "50")
    assert (code, out) == (2, "")
    expected = "'results/made-up' holds a run with rounds = 1000, but this one has rounds = 50: choose another folder"
    assert err == f"equipoise: {expected}\n"


@pytest.mark.slow
def test_an_interruption_gets_one_line_and_keeps_what_is_finished(
    equipoise: Run, simulated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = vars(runner)["simulate_seed"]

    def interrupted(experiment: Any, settings: Any, seed: int, report: Any) -> SeedResult:
        if seed == 1:
            raise KeyboardInterrupt
        return finish(experiment, settings, seed, report)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "simulate_seed", interrupted)
        code, out, err = run_made_up(equipoise)
    assert (code, out) == (130, "")
    assert err.startswith("equipoise: interrupted; finished work is kept")
    assert err.count("\n") == 1
    assert run_made_up(equipoise)[0] == 0
    assert simulated == [0, 1]


def test_a_bug_is_not_hidden(equipoise: Run, simulated: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> SeedResult:
        raise RuntimeError("a bug")

    monkeypatch.setattr(runner, "simulate_seed", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["run", "made-up", "--jobs", "1"])


def test_no_command_shows_the_help(equipoise: Run) -> None:
    code, out, err = equipoise()
    assert (code, err) == (2, "")
    assert "Usage: equipoise" in out


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["verify"]])
def test_help_is_shown(equipoise: Run, command: list[str]) -> None:
    code, out, err = equipoise(*command, "--help")
    assert (code, err) == (0, "")
    assert "Usage: equipoise" in out


def test_help_has_three_groups_with_every_command_in_order(equipoise: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = equipoise("--help")
    assert code == 0
    panels = out.split("╭─ ")[1:]
    assert [panel.split(" ─")[0] for panel in panels] == ["Options", "Run and watch", "Logs", "Research"]
    listed = [re.findall(r"^│ (\w+) ", panel, re.MULTILINE) for panel in panels[1:]]
    assert listed == [
        ["serve", "check", "token", "personalizer", "show", "rebuild", "backup", "restore", "redact"],
        ["replay"],
        ["run", "suite", "audit", "verify", "list"],
    ]
    known = get_command(application()).commands  # type: ignore[attr-defined]  # the app is a group of commands
    assert {name for names in listed for name in names} == set(known)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("equipoise re", {"rebuild", "redact", "restore", "replay"}),
        ("equipoise token ", {"add", "list", "remove"}),
        ("equipoise suite --q", {"--quick"}),
        ("equipoise bench", set()),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, found: set[str]) -> None:
    position = str(len(words.split(" ")) - 1)
    asked = {"_EQUIPOISE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    command = [sys.executable, "-m", "equipoise"]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **asked}, check=True)
    assert set(run.stdout.split()) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_a_shell(shell: str) -> None:
    """Without detection, so that the test does not depend on the shell that runs it."""
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "equipoise", "--show-completion", shell]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert f"_EQUIPOISE_COMPLETE=complete_{shell}" in run.stdout


def test_version_is_shown(equipoise: Run) -> None:
    assert equipoise("--version") == (0, f"equipoise {__version__}\n", "")


def test_help_imports_nothing_slow() -> None:
    program = (
        "import json, sys\nfrom equipoise.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout.splitlines()[-1]))
    assert loaded.isdisjoint({"numba", "matplotlib", "polars", "gymnasium", "scipy"})


def test_list_shows_everything_registered(equipoise: Run, simulated: list[int]) -> None:
    code, out, err = equipoise("list")
    assert (code, err) == (0, "")
    assert out.count("\n") == 4 + len(EXPERIMENTS) + len(LEARNERS) + len(ADAPTERS) + len(SELECTORS) + len(PROBLEMS)
    assert "made-up A made-up experiment (paper: Nowhere)" in " ".join(out.split())
    learners = {**LEARNERS, **ADAPTERS}
    for kind, registry in (("learners", learners), ("selectors", SELECTORS), ("problems", PROBLEMS)):
        code, out, err = equipoise("list", kind)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert [line.split()[0] for line in lines] == [command_name(name) for name in sorted(registry)]
        assert all(len(line.split()) > 2 for line in lines)


def test_verify_accepts_a_run_and_its_file(equipoise: Run, tmp_path: Path) -> None:
    finished_run(tmp_path / "run")
    for path in ("run", "run/eliminations.jsonl"):
        expected = (
            "run/eliminations.jsonl: verified all 3 records: digests match, and the recomputed inequalities hold\n"
        )
        assert equipoise("verify", path) == (0, expected, "")


def test_verify_has_nothing_to_say_about_an_empty_file(equipoise: Run, tmp_path: Path) -> None:
    finished_run(tmp_path / "run", eliminate=False)
    expected = "run/eliminations.jsonl: no learner was eliminated, so there is nothing to verify\n"
    assert equipoise("verify", "run") == (0, expected, "")


def test_verify_rejects_an_altered_record_with_exit_code_1(equipoise: Run, tmp_path: Path) -> None:
    finished_run(tmp_path / "run", seeds=30)
    file = tmp_path / "run" / "eliminations.jsonl"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"round":1000', '"round":1001'), encoding="utf-8")
    code, out, err = equipoise("verify", "run")
    assert (code, out) == (1, "")
    first, last = err.splitlines()
    assert first.startswith("equipoise: run/eliminations.jsonl: line 1: digest does not match the record")
    assert last == "equipoise: run/eliminations.jsonl: verification failed, 1 faults in 30 records"
    file.write_text(text.replace('"seed"', '"sead"'), encoding="utf-8")
    code, out, err = equipoise("verify", "run")
    assert (code, len(err.splitlines())) == (1, 21)
    assert err.endswith("60 faults in 30 records, 40 more not shown\n")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=1", 1),
        ("a=1.5", 1.5),
        ("a=true", True),
        ("a=null", None),
        ("a=[1, 2]", [1, 2]),
        ('a="1"', "1"),
        ("a=text", "text"),
        ("a=b=c", "b=c"),
        ("a=", ""),
        ("a=NaN", "NaN"),
        ("a=Infinity", "Infinity"),
    ],
)
def test_settings_are_json_or_text(word: str, value: Any) -> None:
    parsed = parse_settings([word])["a"]
    assert parsed == value
    assert type(parsed) is type(value)
