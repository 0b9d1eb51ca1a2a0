"""A limit on the arrays that a learner makes, which is checked before they take memory.

A service builds learners from requests and files, and a dimension of 10,000 asks for 800 MB. Learners say what they
are about to make by `check_array`, and the service sets the limit by `arrays_of_at_most`. Elsewhere there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from equipoise.errors import InvalidArgument

MIB = 1 << 20
_MAX_BYTES: ContextVar[float] = ContextVar("max_bytes", default=inf)


@contextmanager
def arrays_of_at_most(max_bytes: float) -> Iterator[None]:
    """Let `check_array` raise an error for larger arrays."""
    token = _MAX_BYTES.set(max_bytes)
    try:
        yield
    finally:
        _MAX_BYTES.reset(token)


def check_array(what: str, *shape: int) -> None:
    """Raise an error if an array of numbers with this shape is too large; `what` is the setting that it follows from.

    >>> with arrays_of_at_most(64 * MIB):
    ...     check_array("dim = 10000", 10_000, 10_000)
    Traceback (most recent call last):
    equipoise.errors.InvalidArgument: dim = 10000 takes 762 MiB, but the state of a learner must take at most 64 MiB
    """
    size, limit = 8, _MAX_BYTES.get()
    for length in shape:
        size *= int(length)
    if size > limit:
        raise InvalidArgument(
            f"{what} takes {size // MIB} MiB, but the state of a learner must take at most {limit / MIB:.3g} MiB"
        )
