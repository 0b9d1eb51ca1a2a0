"""`equipoise list`: list what can be used by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from equipoise.cli.app import app, print_error
from equipoise.errors import UnknownName, explain_missing
from equipoise.storage.registry import KINDS as CLASSES
from equipoise.storage.registry import builtin_classes, command_name, plugins

KINDS = ("experiments", *CLASSES)


@app.command("list")
def list_(
    kind: Annotated[str | None, typer.Argument(help=f"What to list: {', '.join(KINDS)}.", show_default="all")] = None,
) -> None:
    """List experiments, learners, selectors and problems, including those of installed packages."""
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
    """Name on the command line and description of each entry of a kind."""
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
        yield command_name(name), _first_sentence(_description(cls))


def _description(cls: type[object]) -> str:
    """The docstring of the module for an algorithm of equipoise, else that of the class."""
    is_builtin = cls.__module__.startswith("equipoise.")
    return (sys.modules[cls.__module__].__doc__ if is_builtin else cls.__doc__) or ""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")
