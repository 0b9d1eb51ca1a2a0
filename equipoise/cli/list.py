"""`equipoise list`: what there is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from equipoise.cli.app import app, complain
from equipoise.errors import UnknownName, explain_missing
from equipoise.storage.registry import KINDS as CLASSES
from equipoise.storage.registry import command_name, own_classes, plugins

KINDS = ("experiments", *CLASSES)


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
        try:
            from equipoise.lab.experiments import EXPERIMENTS
        except ModuleNotFoundError as error:
            complain(str(explain_missing(error) or error))
            return
        for experiment in EXPERIMENTS.values():
            yield experiment.name, f"{experiment.title} (paper: {experiment.section})"
        return
    found = plugins(kind)
    for fault in found.faults:
        complain(fault)
    for name, cls in sorted({**own_classes(kind), **found.classes}.items()):
        yield command_name(name), _first_sentence(_description(cls))


def _description(cls: type[object]) -> str:
    """An algorithm of the package has a file of its own, which describes it."""
    own = cls.__module__.startswith("equipoise.")
    return (sys.modules[cls.__module__].__doc__ if own else cls.__doc__) or ""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")
