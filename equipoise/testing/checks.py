"""How a contract suite runs its checks and words what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from equipoise.errors import EquipoiseError

Subject = TypeVar("Subject")
Example = TypeVar("Example")
REFUSALS = (EquipoiseError, ValueError, TypeError, LookupError)


def run_checks(
    checks: Mapping[Callable[[Subject], None], Callable[[Example], bool]],
    subject: Subject,
    example: Callable[[], Example],
) -> list[str]:
    """Run every check that applies to an example of what is checked; the names of those that were run.

    A check's name is the sentence it proves. The first one that fails raises an AssertionError with its name and
    finding; whatever the subject raises where it should not is a finding too.
    """
    proved = []
    for check, applies in checks.items():
        name = check.__name__.replace("_", " ")
        try:
            if not applies(example()):
                continue
            check(subject)
        except Exception as error:
            how = str(error) if isinstance(error, AssertionError) else f"it raised {error!r}"
            raise AssertionError(f"check {name!r} failed: {how}") from error
        proved.append(name)
    return proved


def require_refusal(call: Callable[[], object], what: str) -> None:
    """Whatever is refused is refused with a reason."""
    try:
        call()
    except REFUSALS as error:
        if not str(error):
            raise AssertionError(f"{what} was refused without a reason") from error
        return
    raise AssertionError(f"{what} was not refused")


def always(example: object) -> bool:
    return True
