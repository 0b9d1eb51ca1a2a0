"""Memories of learners in one array, one row each, so that compiled code can copy a policy as a row of words.

Compiled code cannot loop over a tuple of different types, and separate copies of each array take minutes to compile.
Here every array of a memory is a view of its learner's row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = 8  # bytes


def pack(memories: Sequence[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Memories with the same contents, and the array that holds them: row i is memory i."""
    n_words = [sum(-(-array.nbytes // WORD) for array in arrays(memory)) for memory in memories]
    words = np.zeros((len(memories), max(n_words)), np.int64)
    packed = []
    for memory, row in zip(memories, words, strict=True):
        packed.append(_placed(memory, row, [0]))
        copy(memory, packed[-1])
    return packed, words


def arrays(memory: Any) -> Iterator[NDArray[Any]]:
    """All arrays of a memory, including those in nested tuples."""
    for part in memory:
        if isinstance(part, np.ndarray):
            yield part
        else:
            yield from arrays(part)


def copy(source: Any, target: Any) -> None:
    """Copy the contents of one memory to another of the same shape."""
    for own, other in zip(arrays(source), arrays(target), strict=True):
        other[...] = own


def _placed(memory: Any, row: NDArray[np.int64], used: list[int]) -> Any:
    parts = []
    for part in memory:
        if not isinstance(part, np.ndarray):
            parts.append(_placed(part, row, used))
            continue
        words = row[used[0] : used[0] + -(-part.nbytes // WORD)]
        used[0] += len(words)
        flat = words.view(np.uint8)[: part.nbytes].view(part.dtype)
        parts.append(flat.reshape(part.shape, order="C" if part.flags.c_contiguous else "F"))
    return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)
