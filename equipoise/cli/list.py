"""`equipoise list`: what there is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from equipoise.cli.app import app
from equipoise.errors import UnknownName

KINDS = ("experiments", "learners", "selectors", "problems")


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
