"""`python -m tools.pages`: write the generated pages of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import parse_settings
from equipoise.cli.research import run_with_progress
from equipoise.cli.terminal import progress_bar
from equipoise.errors import UnknownName


def write_pages(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Experiments, compatibility, guarantees, reference, theory.",
            show_default="all with a page",
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
    """Run experiments with their default settings and write their pages of the documentation."""
    from equipoise.lab.experiments import EXPERIMENTS
    from equipoise.storage.files import write_atomic
    from tools.pages import compatibility, guarantees, reference
    from tools.pages.experiments import write_page

    computed: dict[str, Callable[[], str]] = {
        "compatibility": compatibility.page,
        "guarantees": lambda: guarantees.page(parse_settings(settings or [])),
        "reference": reference.page,
    }
    for name in names or ():
        if name not in (*EXPERIMENTS, *computed, "theory"):
            raise UnknownName("page", name, (*EXPERIMENTS, *computed, "theory"))
    for name in names or (*EXPERIMENTS, *computed, "theory"):
        if name in computed:
            paths = [out.parent / f"{name}.md"]
            out.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(paths[0], computed[name]().encode())
        elif name == "theory":
            paths = _write_theory(results, out.parent, jobs)
        else:
            finished, _ = run_with_progress(EXPERIMENTS[name], jobs=jobs, out=results / name)
            paths = write_page(EXPERIMENTS[name], finished, out)
        for path in paths:
            typer.echo(path)


def _write_theory(results: Path, out: Path, jobs: int | None) -> list[Path]:
    """Audit and measure growth, unless `results` has both already, and write the page about them."""
    from equipoise.lab.audit.audit import run as run_audit
    from equipoise.lab.audit.report import publish
    from tools.pages import growth
    from tools.pages import theory as theory_page

    if not (results / "audit" / "audit.json").exists():
        with progress_bar() as progress:
            publish(run_audit(jobs=jobs, progress=progress), results / "audit")
    if not (results / "growth.json").exists():
        growth.save(growth.measure(), results / "growth.json")
    audited = theory_page.read_audit(results / "audit" / "audit.json")
    return theory_page.write(out, audited, growth.load(results / "growth.json"))
