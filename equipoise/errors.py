"""The errors that equipoise raises. Each message names the argument, its value and the rule it violates."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Self


class EquipoiseError(Exception):
    """Base class of all errors that equipoise raises."""


class InvalidArgument(EquipoiseError, ValueError):  # noqa: N818 - reads better at the raise
    """An argument is invalid; nothing was changed."""


class IncompatibleLearner(InvalidArgument):
    """A learner does not provide what the selector needs."""


class UnknownName(EquipoiseError, LookupError):  # noqa: N818
    """An unknown name; the message suggests similar names."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        self._arguments = what, name, names
        similar = difflib.get_close_matches(name, names, n=3) or names
        hint = f"did you mean {', '.join(similar)}?" if similar else "none is known"
        super().__init__(f"{what} {name!r} is unknown; {hint}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, list[str]]]:
        """So that the error can be pickled and raised in another process."""
        return type(self), self._arguments


class UnknownSetting(UnknownName, TypeError):  # noqa: N818
    """An argument that a constructor does not have; the message suggests similar names."""


class OfferRefused(InvalidArgument):
    """A learner cannot use an offer, by its features or its id: it neither chooses the action nor learns from it."""


class UnknownOffer(UnknownName, OfferRefused):
    """Offers of which no id is known; the message suggests similar ids."""


class UnknownDecision(EquipoiseError, LookupError):  # noqa: N818
    """A decision that was never made, or that is closed."""


class DuplicateReward(UnknownDecision):
    """A reward for a decision that already has its reward, was withdrawn or is past its deadline."""


class DuplicateDecision(InvalidArgument):
    """A caller's id that was already used with another context."""


class NoLearnerAvailable(EquipoiseError, RuntimeError):  # noqa: N818
    """No learner can play this round, and there is no fallback."""


class MissingExtra(EquipoiseError, ImportError):  # noqa: N818
    """A feature needs a package that is installed only with an extra."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        self._arguments = what, package, extra
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'equipoise[{extra}]'")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), self._arguments


_PACKAGES = {  # by the extra that installs them
    "cli": ("rich", "typer"),
    "dask": ("distributed",),
    "lab": ("matplotlib", "numba", "polars", "scipy"),
    "lightgbm": ("lightgbm",),
    "logs": ("msgspec",),
    "mabwiser": ("mabwiser",),
    "ray": ("ray",),
    "river": ("river",),
    "rl": ("gymnasium",),
    "sb3": ("stable_baselines3",),
    "serve": ("httptools", "prometheus_client", "starlette", "uvicorn", "uvloop"),
    "sklearn": ("sklearn", "skops"),
    "torch": ("torch",),
    "vw": ("vowpalwabbit",),
    "xgboost": ("xgboost",),
}
EXTRAS = {package: extra for extra, packages in _PACKAGES.items() for package in packages}


def explain_missing(error: ModuleNotFoundError, what: str = "this") -> MissingExtra | None:
    """The error that says what to install, if the missing package belongs to an extra."""
    package = (error.name or "").partition(".")[0]
    return MissingExtra(what, package, EXTRAS[package]) if package in EXTRAS else None


def require(what: str, *packages: str) -> None:
    """Raise an error if a package is not installed, before any work is done."""
    for package in packages:
        try:
            installed = find_spec(package) is not None
        except ModuleNotFoundError:
            installed = False
        if not installed:
            raise MissingExtra(what, package, EXTRAS[package])


class UnreadableFile(EquipoiseError):  # noqa: N818
    """A file is truncated, was modified, or has a version that this release cannot read."""


class FileUnavailable(UnreadableFile):
    """A file cannot be used at present: too many open files, a device error, a lock. It need not be damaged."""


class StoreConflict(EquipoiseError):  # noqa: N818
    """A folder or file contains something other than what is to be written or read."""


class JournalLocked(EquipoiseError):  # noqa: N818
    """Another process writes to the journal, or this process lost the right to."""


class JournalBusy(EquipoiseError):  # noqa: N818
    """Too many calls wait for the journal; nothing was changed, and the call may be repeated a moment later."""


class JournalFailed(EquipoiseError):  # noqa: N818
    """The journal could not be written, so nothing more is accepted; open it again when the cause is mended.

    The call that raised this was not acknowledged: after opening again, its change is there as a whole or not at all.
    """
