"""`equipoise run`, `suite`, `audit`, `verify` and `list`: experiments and their parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import check_folder, command, parse_settings, print_error, split_names
from equipoise.cli.terminal import print_paths, print_results, print_suite, print_table, progress_bar
from equipoise.errors import UnknownName, UnreadableFile, explain_missing, require
from equipoise.storage.registry import KINDS as CLASSES
from equipoise.storage.registry import builtin_classes, command_name, plugins
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from equipoise.lab.experiment import Experiment
    from equipoise.lab.runs.results import Results

KINDS = ("experiments", *CLASSES)
ELIMINATIONS = "eliminations.jsonl"
MAX_FAULTS = 20  # printed one by one

# Shared by the commands that do long work.
JobsOption = Annotated[int | None, typer.Option(help="Number of parallel processes.", show_default="one per core")]
_executor = typer.Option(help="Where to run: local, dask://HOST:PORT, ray or ray://HOST:PORT.", show_default="local")
ExecutorOption = Annotated[str | None, _executor]
SelectorsOption = Annotated[
    str | None, typer.Option(help="Names of selectors, separated by commas.", show_default="all")
]


@command("run")
def run(
    name: Annotated[str, typer.Argument(help="Name of the experiment, as in `equipoise list experiments`.")],
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.", show_default="as in the experiment")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="as in the experiment")] = None,
    selectors: SelectorsOption = None,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="results/NAME")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the experiment. May be repeated."),
    ] = None,
) -> None:
    """Run an experiment, or continue one that was interrupted, and write its results, figure and report."""
    require("equipoise run", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.experiments import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    arguments: Config = {"rounds": rounds, "seeds": seeds, "selectors": split_names(selectors), "jobs": jobs}
    arguments |= {"out": out or Path("results") / name, "overrides": parse_settings(settings or [])}
    print_results(*run_with_progress(EXPERIMENTS[name], executor, **arguments))


def run_with_progress(
    experiment: Experiment, executor: str | None = None, **arguments: Plain
) -> tuple[Results, list[Path]]:
    """Run an experiment and return its results and the files written."""
    from equipoise.lab.clusters import open_executor
    from equipoise.lab.report.run_report import publish
    from equipoise.lab.runs.runner import run as run_experiment

    with open_executor(executor) as cluster, progress_bar() as progress:
        results = run_experiment(experiment, executor=cluster, progress=progress, **arguments)
        progress("drawing", 0.0)
        return results, publish(results)


@command("suite")
def suite(
    selectors: SelectorsOption = None,
    instances: Annotated[
        str | None, typer.Option(help="Names of problem instances, separated by commas.", show_default="all")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="20, or 2 with --quick")] = None,
    first_seed: Annotated[
        int | None, typer.Option(help="The first seed.", show_default="2000, or 0 with --quick")
    ] = None,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short runs, to see that everything works; the results mean nothing.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for recorded data and results.", show_default="results/suite[-quick]")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the leaderboard page.", show_default="docs, if all was run")
    ] = None,
) -> None:
    """Run all selectors on the same problem instances, or continue after an interruption, and write the leaderboard."""
    require("equipoise suite", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.clusters import open_executor
    from equipoise.lab.suite.report import publish
    from equipoise.lab.suite.suite import run_suite

    folder = out or Path("results") / ("suite-quick" if quick else "suite")
    with open_executor(executor) as cluster, progress_bar() as progress:
        outcome = run_suite(
            out=folder,
            instances=split_names(instances),
            selectors=split_names(selectors),
            seeds=seeds,
            first_seed=first_seed,
            jobs=jobs,
            executor=cluster,
            quick=quick,
            progress=progress,
        )
        progress("drawing", 0.0)
        paths = publish(outcome, folder, docs or (Path("docs") if outcome.is_whole else None))
    print_suite(outcome, paths)


@command("audit")
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Only a few short runs.")] = False,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("results/audit"),
) -> None:
    """Check the theorems in simulations whose true regret is known. Exits with code 1 if one is violated."""
    require("equipoise audit", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.audit.audit import run as run_audit
    from equipoise.lab.audit.report import describe_controls, describe_outcome, publish, summary
    from equipoise.lab.clusters import open_executor

    check_folder("--out", out)
    with open_executor(executor) as cluster, progress_bar() as progress:
        result = run_audit(quick=quick, jobs=jobs, executor=cluster, progress=progress)
    print_table(summary(result))
    for row in result.broken:
        low, high = row.interval
        print_error(f"{row.subject}: {row.claim}: {row.violations} of {row.runs} runs, [{low:.3f}, {high:.3f}]")
    typer.echo("\nNegative controls, each of which must be detected:")
    for line in describe_controls(result):
        typer.echo(f"  {line}")
    typer.echo(f"\n{describe_outcome(result)}")
    print_paths(publish(result, out))
    if not result.passed:
        raise typer.Exit(1)


@command("verify")
def verify(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of a run, or a file of records (JSON lines).")],
) -> None:
    """Verify every elimination or comparison in a file: recompute it from its record, and check its digest.

    Exits with code 1 if a record was changed or proves nothing.
    """
    from equipoise.certificates.records import verify_file

    file = path / ELIMINATIONS if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise UnreadableFile(f"{str(path)!r} has no {ELIMINATIONS}, so it is not the folder of a finished run")
    n_records, faults = verify_file(file)
    for fault in faults[:MAX_FAULTS]:
        print_error(f"{file}: {fault}")
    if faults:
        more = f", {len(faults) - MAX_FAULTS} more not shown" if len(faults) > MAX_FAULTS else ""
        print_error(f"{file}: verification failed, {len(faults)} faults in {n_records} records{more}")
        raise typer.Exit(1)
    subject = "1 record" if n_records == 1 else f"all {n_records} records"
    verified = f"verified {subject}: digests match, and the recomputed inequalities hold"
    typer.echo(f"{file}: {verified if n_records else 'no learner was eliminated, so there is nothing to verify'}")


@command("list")
def list_names(
    kind: Annotated[str | None, typer.Argument(help=f"What to list: {', '.join(KINDS)}.", show_default="all")] = None,
) -> None:
    """List experiments, learners, selectors and problems, including the ones of installed packages."""
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    for current in KINDS if kind is None else (kind,):
        entries = list(_entries(current))
        if kind is None:
            typer.echo(typer.style(current, bold=True))
        width = max((len(name) for name, _ in entries), default=0)
        for name, description in entries:
            typer.echo(f"{'' if kind else '  '}{name:<{width}}  {description}")


def _entries(kind: str) -> Iterator[tuple[str, str]]:
    if kind == "experiments":
        try:
            from equipoise.lab.experiments import EXPERIMENTS
        except ModuleNotFoundError as error:
            print_error(str(explain_missing(error) or error))
            return
        for experiment in EXPERIMENTS.values():
            yield experiment.name, f"{experiment.title} (paper: {experiment.section})"
        return
    installed = plugins(kind)
    for fault in installed.faults:
        print_error(fault)
    for name, cls in sorted({**builtin_classes(kind), **installed.classes}.items()):
        # Algorithms of equipoise are described by their modules.
        about = sys.modules[cls.__module__] if cls.__module__.startswith("equipoise.") else cls
        paragraph = " ".join((about.__doc__ or "").split("\n\n")[0].split())
        yield command_name(name), paragraph.split(". ")[0].rstrip(".")
