"""What the documentation says is there: examples that run, commands and targets that exist, links that lead somewhere.

The code in README.md and docs/ runs as doctests; this file checks what a doctest cannot see.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main

from equipoise.bounds import BOUNDS
from equipoise.cli import application
from equipoise.confidence import RADII
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.rivals import RIVAL_LEARNERS, RIVAL_SELECTORS
from equipoise.learners import LEARNERS
from equipoise.problems import PROBLEMS
from equipoise.selectors import SELECTORS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAX_README_WORDS = 450  # before the list of links
REGISTERED = [*LEARNERS, *SELECTORS, *RIVAL_LEARNERS, *RIVAL_SELECTORS, *PROBLEMS, *EXPERIMENTS, *BOUNDS]

# Files beside the algorithms that have nothing to cite, and why.
WITHOUT_REFERENCE = {
    "learners/__init__.py": "registry",
    "learners/constant.py": "always the same action",
    "learners/scheduled.py": "its regret is set, not learned",
    "selectors/__init__.py": "registry",
    "selectors/uniform.py": "draws learners at random",
    "selectors/oracle.py": "knows the best learner",
    "rivals/__init__.py": "registry",
    "rivals/selecting.py": "what learners share that select a model",
}
ALGORITHM_FILES = sorted(
    path for folder in ("learners", "selectors", "lab/rivals") for path in (ROOT / "equipoise" / folder).glob("*.py")
)


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def shell_lines(page: str) -> Iterator[list[str]]:
    """The commands of a page's shell blocks, as words, without comments."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def commands(page: str) -> Iterator[list[str]]:
    """All commands of a page: those of its shell blocks, and those that stand between backticks in its text."""
    yield from shell_lines(page)
    for code in re.findall(r"(?<!`)`((?:make|equipoise|python) [^`\n]+)`", page):
        yield shlex.split(code)


def headings(page: str) -> set[str]:
    """The anchors of a page's headings, as hosts of Markdown make them."""
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(path: Path, page: str) -> list[str]:
    """The links of a page to files or headings that do not exist; addresses of the web are not looked up."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page):
        if re.match(r"https?://", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        lost = not file.exists() or not file.is_relative_to(ROOT)
        if lost or (anchor and anchor not in headings(page if file == path else text_of(file))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_every_internal_link_resolves(path: Path) -> None:
    assert broken_links(path, text_of(path)) == []


def test_broken_links_are_found() -> None:
    page = """# A title: here
    [a](#a-title-here) [b](#none) [c](CONTRIBUTING.md) [d](none.md) [e](https://none.invalid) [f](docs/guide.md#none)
    """
    assert broken_links(ROOT / "README.md", page) == ["#none", "none.md", "docs/guide.md#none"]


def pages_linked_from(path: Path) -> set[Path]:
    links = re.findall(r"\]\(([^)\s]+\.md)(?:#[^)\s]*)?\)", text_of(path))
    return {(path.parent / link).resolve() for link in links if not re.match(r"https?://", link)}


def test_the_readme_links_every_page() -> None:
    """And the index of the guide every page of the guide."""
    linked = pages_linked_from(ROOT / "README.md") | pages_linked_from(ROOT / "docs" / "guide.md")
    assert {page_id(path) for path in set(PAGES) - linked} == {"README.md"}
    assert set((ROOT / "docs" / "guide").glob("*.md")) <= pages_linked_from(ROOT / "docs" / "guide.md")


def test_the_readme_fits_on_a_screen() -> None:
    before_links = text_of(ROOT / "README.md").split("\n## Documentation\n")[0]
    assert len(before_links.split()) <= MAX_README_WORDS


def test_the_readme_shows_the_recommended_selector_and_a_class_of_ones_own() -> None:
    readme = text_of(ROOT / "README.md")
    assert re.search(r"Portfolio\(\[[^]]*\]\)", readme)
    assert "def decide(self, context)" in readme
    assert "BalancedElimination" not in readme


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "guide").glob("*.md")), ids=page_id)
def test_no_page_of_the_guide_uses_observed_bounds_to_select(path: Path) -> None:
    """The suite shows them to be no better than uniform choice; the example of a refusal may have them."""
    blocks = re.findall(r"^```python\n(.*?)^```", text_of(path), re.MULTILINE | re.DOTALL)
    assert [block for block in blocks if "BalancedElimination([Observed()" in block and "Traceback" not in block] == []


def is_script(path: Path) -> bool:
    return path.is_file() and 'if __name__ == "__main__":' in text_of(path)


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_make_targets_and_files_in_commands_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for words in commands(text_of(path)):
        if words[0] == "make":
            wanted = {word for word in words[1:] if "=" not in word}
            assert wanted <= targets, f"{' '.join(words)}: no such target"
        for word in words:
            if word.endswith(".py"):
                assert (ROOT / word).is_file(), f"{' '.join(words)}: no such file"
        if words[:2] == ["python", "-m"]:
            module = ROOT.joinpath(*words[2].split("."))
            runnable = (module / "__main__.py").is_file() or is_script(module.with_suffix(".py"))
            assert runnable or words[2] == "pytest", f"{' '.join(words)}: no such module"


def test_the_tests_that_pages_name_exist() -> None:
    sources = {path: text_of(path) for path in (ROOT / "tests").rglob("test_*.py")}
    known = {path.stem for path in sources} | {
        name for text in sources.values() for name in re.findall(r"def (test_\w+)", text)
    }
    named = {name for path in PAGES for name in re.findall(r"`(test_\w+)(?:\.py)?`", text_of(path))}
    assert len(named) > 40 and named <= known, sorted(named - known)


def test_the_readme_names_the_two_commands() -> None:
    assert list(shell_lines(text_of(ROOT / "README.md")))[:2] == [["make", "demo"], ["make", "test"]]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_commands_of_the_command_line_exist(path: Path) -> None:
    group = typer.main.get_group(application())
    for words in commands(text_of(path)):
        if words[0] == "equipoise":
            command = group.commands.get(words[1])
            if isinstance(command, typer.core.TyperGroup) and len(words) > 2:
                command = command.commands.get(words[2])
            assert command is not None, f"{' '.join(words)}: no such command"
            options = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options, " ".join(words)
            if words[1] == "run":
                assert set(words[2:3]) <= set(EXPERIMENTS), " ".join(words)


@pytest.mark.parametrize("name", REGISTERED)
def test_everything_registered_is_documented(name: str) -> None:
    assert f"`{name}`" in text_of(ROOT / "docs" / "algorithms.md")


@pytest.mark.parametrize("name", RADII)
def test_every_radius_is_documented(name: str) -> None:
    assert f'`radius="{name}"`' in text_of(ROOT / "docs" / "algorithms.md")


@pytest.mark.parametrize("path", ALGORITHM_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_algorithm_states_its_reference(path: Path) -> None:
    """A docstring has a line "Reference: authors (year), ...", unless the table above says why it has not."""
    docstring = ast.get_docstring(ast.parse(text_of(path))) or ""
    cited = re.search(r"^References?: .*?\(\d{4}\)", docstring, re.MULTILINE | re.DOTALL) is not None
    assert cited != (f"{path.parent.name}/{path.name}" in WITHOUT_REFERENCE)


def test_every_file_without_a_reference_exists() -> None:
    assert WITHOUT_REFERENCE.keys() <= {f"{path.parent.name}/{path.name}" for path in ALGORITHM_FILES}


def run_example(name: str, *arguments: str, warnings: str = "error", **environment: str) -> str:
    program = [sys.executable, "-W", warnings, str(ROOT / "examples" / name), *arguments]
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=120, env=settings).stdout


def skip_without(*packages: str) -> pytest.MarkDecorator:
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def test_the_examples_are_those_tested_here() -> None:
    tested = {"own_learner.py", "feature_selection.py", "gymnasium_frozenlake.py", "offers.py"}
    tested |= {"three_libraries.py", "litellm_routing.py", "stable_baselines3_slices.py"}
    tested |= {"dollars.py", "training_loop.py", "passengers.py"}
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == tested


@pytest.mark.slow
def test_offers_example_finds_the_map_that_matters() -> None:
    shown = run_example("offers.py", "6000")
    plays = {name: int(n.replace(",", "")) for name, n in re.findall(r"^(.+?) +([\d,]+) plays", shown, re.MULTILINE)}
    assert max(plays, key=lambda name: plays[name]) == "price by visitor"
    assert "ids remembered" in shown


@skip_without("polars")
def test_passengers_are_guessed_from_a_data_frame() -> None:
    shown = run_example("passengers.py", "800")
    assert sum(int(number.replace(",", "")) for number in re.findall(r"([\d,]+) plays", shown)) == 800
    regret = re.search(r"gained (\d+) rewards less than the better guess", shown)
    assert regret is not None and int(regret[1]) < 100


@pytest.mark.slow
def test_dollars_example_plays_the_offer_that_earns_most_and_counts_what_it_clips() -> None:
    shown = run_example("dollars.py", "6000")
    plays = {name: int(n.replace(",", "")) for name, n in re.findall(r"^(.+?): ([\d,]+) plays", shown, re.MULTILINE)}
    assert sum(plays.values()) == 6000 and max(plays, key=lambda name: plays[name]) == "EpsilonGreedy(0.1)"
    assert "about rewards clipped to [0, 150]" in shown and "visits ended without a purchase" in shown


def test_training_loop_example_prefers_a_moderate_rate() -> None:
    shown = run_example("training_loop.py", "800")
    plays = {
        name: int(n.replace(",", "")) for name, n in re.findall(r"^(rate .+?): ([\d,]+) plays", shown, re.MULTILINE)
    }
    assert sum(plays.values()) == 800 and min(plays, key=lambda name: plays[name]) == "rate 0.9"


@pytest.mark.slow
def test_own_learner_drops_the_learner_that_cannot_tell_visitors_apart() -> None:
    shown = run_example("own_learner.py", "20000")
    assert "'same for all' is eliminated" in shown
    assert shown.count(" is eliminated") == 1
    assert "With confidence 0.95" in shown


@pytest.mark.slow
def test_feature_selection_resumes_and_draws(tmp_path: Path) -> None:
    shown = run_example("feature_selection.py", "600", str(tmp_path / "new"))
    plays = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) plays", shown)]
    assert sum(plays) == 600
    assert (tmp_path / "new" / "feature_selection.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_frozen_lake_is_played_by_four_learners_and_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "lake.png"
    printed = run_example("gymnasium_frozenlake.py", "--episodes", "150", "--picture", str(picture))
    assert all(name in printed for name in ("UCBVI, printed", "UCBVI, small", "Q-learning", "LSVI-UCB"))
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
@skip_without("sklearn", "skops", "lightgbm", "vowpalwabbit")
def test_models_of_three_libraries_go_on_after_a_restart() -> None:
    shown = run_example("three_libraries.py", "1500")
    plays = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) plays", shown)]
    assert sum(plays) == 1_500 and len(plays) == 3
    regret = re.search(r"Mean regret (\S+) before the restart, (\S+) after it", shown)
    assert regret is not None and float(regret[2]) < float(regret[1])


@pytest.mark.slow
@skip_without("stable_baselines3")
def test_agents_are_trained_in_slices() -> None:
    """Each slice has two whole rollouts of 128 steps, and the one step at which it is stopped."""
    shown = run_example("stable_baselines3_slices.py", "4", "200")
    rows = [(int(n), int(steps)) for n, steps in re.findall(r"(\d+) slices, +([\d]+) steps, mean return", shown)]
    assert len(rows) == 3 and sum(n for n, _ in rows) == 4
    assert all(steps == 257 * n for n, steps in rows)


@pytest.mark.slow
@skip_without("litellm")
def test_requests_are_routed_to_the_model_that_solves_them() -> None:
    shown = run_example("litellm_routing.py", "300", warnings="ignore", LITELLM_LOCAL_MODEL_COST_MAP="True")
    plays = [int(number) for number in re.findall(r"(\d+) plays", shown)]
    assert sum(plays) == 300
    easy, hard = ([int(number) for number in re.findall(r"\d+", line)] for line in shown.splitlines()[:2])
    assert hard[1] / sum(hard) > 1.5 * easy[1] / sum(easy)
