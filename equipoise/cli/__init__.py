"""The command line. Whatever a command needs beyond its arguments is imported when it runs, so that help comes fast.

Wrong input gives one line on stderr and exit code 2; a verification that fails exits with 1, an interruption with 130.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise import __version__
from equipoise.cli.terminal import print_benchmark, print_results, print_suite, print_table, progress_bar
from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from equipoise.lab.experiments import Experiment
    from equipoise.lab.runs.results import Results

KINDS = ("experiments", "learners", "selectors", "problems")
INTERRUPTED = 130  # also what Typer makes of an interruption
MOST_FAULTS = 20  # that are shown one by one
AUDIT_COLUMNS = ("claim", "", "subjects", "violated", "largest share", "verdict")

app = typer.Typer(
    name="equipoise",
    help="Online model selection for bandits and reinforcement learning, with proofs attached.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    try:
        code = app(args=arguments, prog_name="equipoise", standalone_mode=False)
    except EquipoiseError as error:
        _complain(str(error))
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        # Wrong usage. Its class lives in another package in some versions of Typer, but always explains itself.
        if not hasattr(error, "format_message"):
            raise
        if error.format_message():  # empty where the help was shown instead
            _complain(error.format_message())
        code = 2
    if code == INTERRUPTED:
        _complain("interrupted; what is finished is kept, and the same command goes on from there")
    sys.exit(code)


def _complain(message: str) -> None:
    typer.echo(f"equipoise: {' '.join(message.split())}", err=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of the experiment; see `equipoise list experiments`.")],
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.", show_default="the experiment's")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="the experiment's")] = None,
    selectors: Annotated[
        str | None, typer.Option(help="Selectors, separated by commas.", show_default="all of the experiment")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="results/NAME")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")
    ] = None,
) -> None:
    """Run an experiment, or go on with one, and write results, figure and report."""
    from equipoise.lab.experiments import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    arguments = {
        "rounds": rounds,
        "seeds": seeds,
        "selectors": _parts(selectors),
        "jobs": jobs,
        "out": out or Path("results") / name,
        "overrides": parse_settings(settings or []),
    }
    results, paths = _run_with_progress(EXPERIMENTS[name], arguments)
    print_results(results, paths)


@app.command("list")
def list_(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}.", show_default="all")] = None,
) -> None:
    """List experiments, learners, selectors and problems."""
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    for shown in KINDS if kind is None else (kind,):
        entries = list(_entries(shown))
        if kind is None:
            typer.echo(typer.style(shown, bold=True))
        width = max((len(name) for name, _ in entries), default=0)
        for name, description in entries:
            typer.echo(f"{'' if kind else '  '}{name:<{width}}  {description}")


@app.command()
def docs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments, entitlement, guarantees or theory.", show_default="all with a page"
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the runs; what is there is not run again.")] = Path(
        "results/docs"
    ),
    out: Annotated[Path, typer.Option(help="Folder for the pages.")] = Path("docs/experiments"),
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Numbers of the guarantees; may be repeated.")
    ] = None,
) -> None:
    """Run experiments with their default settings and write their pages of the documentation.

    The page entitlement says what selectors demand and learners offer.
    """
    from equipoise.lab.experiments import EXPERIMENTS
    from equipoise.storage.files import write_atomic
    from equipoise.theory import tables
    from tools.pages import compatibility as entitlement
    from tools.pages.experiments import write_page

    computed: dict[str, Callable[[], str]] = {
        "entitlement": entitlement.page,
        "guarantees": lambda: tables.page(parse_settings(settings or [])),
    }
    pages = {name: experiment for name, experiment in EXPERIMENTS.items() if experiment.setting}
    for name in names or ():
        if name not in (*pages, *computed, "theory"):
            raise UnknownName("page", name, (*pages, *computed, "theory"))
    for name in names or (*pages, *computed, "theory"):
        if name in computed:
            paths = [out.parent / f"{name}.md"]
            out.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(paths[0], computed[name]().encode())
        elif name == "theory":
            paths = _write_theory(results, out.parent, jobs)
        else:
            arguments = {"jobs": jobs, "out": results / name}
            paths = write_page(pages[name], _run_with_progress(pages[name], arguments)[0], out)
        for path in paths:
            typer.echo(path)


def _write_theory(results: Path, out: Path, jobs: int | None) -> list[Path]:
    """Audit and measure growth, unless `results` has both already, and write the page about them."""
    from equipoise.lab.audit import growth
    from equipoise.lab.audit.command import run as run_audit
    from equipoise.lab.audit.report import publish
    from tools.pages import theory as theory_page

    if not (results / "audit" / "audit.json").exists():
        with progress_bar() as progress:
            publish(run_audit(jobs=jobs, progress=progress), results / "audit")
    if not (results / "growth.json").exists():
        growth.save(growth.measure(), results / "growth.json")
    audited = theory_page.read_audit(results / "audit" / "audit.json")
    return theory_page.write(out, audited, growth.load(results / "growth.json"))


@app.command()
def verify(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file of eliminations, or the folder of a run.")],
) -> None:
    """Recompute eliminations from their records and check that nothing was altered."""
    from equipoise.theory.certificates import verify_file

    file = path / "eliminations.jsonl" if path.is_dir() else path
    n_records, faults = verify_file(file)
    for fault in faults[:MOST_FAULTS]:
        _complain(f"{file}: {fault}")
    if faults:
        more = f", {len(faults) - MOST_FAULTS} more not shown" if len(faults) > MOST_FAULTS else ""
        _complain(f"{file}: verification failed, {len(faults)} faults in {n_records} records{more}")
        raise typer.Exit(1)
    verdict = f"all {n_records} eliminations proved by their records" if n_records else "no eliminations to verify"
    typer.echo(f"{file}: {verdict}")


@app.command()
def suite(
    selectors: Annotated[
        str | None, typer.Option(help="Selectors to run, separated by commas.", show_default="all")
    ] = None,
    instances: Annotated[str | None, typer.Option(help="Instances, separated by commas.", show_default="all")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="20; 2 if quick")] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; the prices mean nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tapes and results.", show_default="results/suite[-quick]")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the page.", show_default="docs; none if something was left out")
    ] = None,
) -> None:
    """Run every selector on the same instances, or go on with that, and write the leaderboard."""
    from equipoise.lab.suite.report import publish
    from equipoise.lab.suite.suite import run_suite

    folder = out or Path("results") / ("suite-quick" if quick else "suite")
    wanted = {"instances": _parts(instances), "selectors": _parts(selectors)}
    with progress_bar() as progress:
        outcome = run_suite(out=folder, **wanted, seeds=seeds, jobs=jobs, quick=quick, progress=progress)
        progress("drawing", 0.0)
        paths = publish(outcome, folder, docs or (Path("docs") if outcome.is_whole else None))
    print_suite(outcome, paths)


def _parts(words: str | None) -> list[str] | None:
    return None if words is None else [part.strip() for part in words.split(",")]


@app.command()
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Few runs of few subjects, in seconds.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("results/audit"),
) -> None:
    """Check what theory promises against simulation, where the truth is known; exits with 1 if a claim fails."""
    from equipoise.lab.audit.command import run as run_audit
    from equipoise.lab.audit.report import control_words, publish, summary_rows, verdict_words

    with progress_bar() as progress:
        found = run_audit(quick=quick, jobs=jobs, progress=progress)
    rows = list(summary_rows(found))
    styles = ["" if row[-1] == "holds" else "bold red" for row in rows]
    print_table(AUDIT_COLUMNS, rows, styles=styles, justify="left")
    for row in found.broken:
        low, high = row.interval
        _complain(f"{row.subject}: {row.claim}: {row.violations} of {row.runs} runs, [{low:.3f}, {high:.3f}]")
    typer.echo("\nControls, each of which must be caught:")
    for words in control_words(found):
        typer.echo(f"  {words}")
    typer.echo(f"\n{verdict_words(found)}\n\nWritten:")
    for path in publish(found, out):
        typer.echo(f"  {path}")
    if not found.passed:
        raise typer.Exit(1)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; the times mean nothing.")] = False,
    yardstick: Annotated[
        Path | None, typer.Option(help="A bare loop to time as well: measure(dim, arms, rounds, repeats).")
    ] = None,
    peers: Annotated[Path, typer.Option(help="Python of the environment of other libraries.")] = Path(
        ".venv-bench/bin/python"
    ),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="docs; none if quick")
    ] = None,
) -> None:
    """Measure the time per round beside plain loops and other libraries."""
    from tools.bench import machine

    if not machine.has_one_thread():
        words = ["--quick"] * quick + ["--peers", str(peers)]
        words += ["--yardstick", str(yardstick)] if yardstick else []
        words += ["--out", str(out)] if out else []
        machine.start_over_with_one_thread(["bench", *words])
    from rich.console import Console

    from tools.bench import report
    from tools.bench.run import run as run_benchmark
    from tools.bench.scale import FULL, QUICK

    if yardstick is not None and not yardstick.is_file():
        raise InvalidArgument(f"--yardstick is {str(yardstick)!r}, but must be a Python file")
    python = peers.absolute()  # not resolved: the link is what tells Python its environment
    try:
        with Console(stderr=True).status("starting") as status:
            data = run_benchmark(QUICK if quick else FULL, yardstick=yardstick, python=python, progress=status.update)
    except KeyboardInterrupt:
        _complain("interrupted; nothing was written")
        raise SystemExit(INTERRUPTED) from None
    folder = Path("docs") if out is None and not quick else out
    print_benchmark(data, [] if folder is None else report.write(data, folder))


def parse_settings(words: Sequence[str]) -> Config:
    """Settings from KEY=VALUE; a value is JSON if it reads as such, else text.

    >>> parse_settings(["d_star=8", "noise=gaussian", "share_data=true"])
    {'d_star': 8, 'noise': 'gaussian', 'share_data': True}
    """
    parsed: Config = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidArgument(f"--set is {word!r}, but must have the form KEY=VALUE")
        if key in parsed:
            raise InvalidArgument(f"--set gives {key!r} twice, but must give it once")
        try:
            parsed[key] = json.loads(value, parse_constant=_refuse_constant)
        except ValueError:
            parsed[key] = value
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are no JSON


def _run_with_progress(experiment: Experiment, arguments: Mapping[str, Plain]) -> tuple[Results, list[Path]]:
    from equipoise.lab.report.report import publish
    from equipoise.lab.runs.runner import run as run_experiment

    with progress_bar() as progress:
        results = run_experiment(experiment, progress=progress, **arguments)
        progress("drawing", 0.0)
        return results, publish(results)


def _entries(kind: str) -> Iterator[tuple[str, str]]:
    """Name on the command line and description of everything of a kind."""
    if kind == "experiments":
        from equipoise.lab.experiments import EXPERIMENTS

        for experiment in EXPERIMENTS.values():
            yield experiment.name, f"{experiment.title} (paper: {experiment.section})"
        return
    from equipoise.lab.names import command_name
    from equipoise.learners import LEARNERS
    from equipoise.problems import PROBLEMS
    from equipoise.selectors import SELECTORS

    registry = {"learners": LEARNERS, "selectors": SELECTORS, "problems": PROBLEMS}[kind]
    for name, cls in sorted(registry.items()):
        yield command_name(name), _first_sentence(sys.modules[cls.__module__].__doc__ or "")


def _first_sentence(text: str) -> str:
    """An algorithm has a file of its own, so the file's first sentence describes it."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")


if __name__ == "__main__":
    main()
