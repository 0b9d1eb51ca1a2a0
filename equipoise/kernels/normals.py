"""Rows of standard normal numbers that can be generated one by one, with equal results interpreted and compiled.

A context may need hundreds of normal numbers, and a compiled round would spend most of its time drawing them from a
counter-based generator. Instead, a few words from the given generator seed a small fast generator (SFC64) for each row,
which produces the numbers by the ziggurat method. Rows that are not used are never generated. A row may be continued
later; its numbers do not depend on when or how far it is generated.
Interpreted code uses NumPy's SFC64; the compiled implementation is in `equipoise.simulation.normals`.
References: Marsaglia and Tsang (2000), "The ziggurat method for generating random variables"; Steele, Lea and Flood
(2014), "Fast splittable pseudorandom number generators" (the mixing of the rows' seeds); SFC64 as documented in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.kernels.marks import kernel

_FAST = np.random.Generator(np.random.SFC64(0))
_STATE: dict[str, Any] = {"bit_generator": "SFC64", "has_uint32": 0, "uinteger": 0}
HALF_WORD, ALL_BITS = 2**32, 2**64 - 1
GAMMA, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@kernel
def start_rows(seeds: NDArray[np.uint64], rng: np.random.Generator) -> None:
    """Draw the three words that seed all rows of one context."""
    for position in range(3):
        # Two halves, because a float has only 53 bits.
        seeds[position] = int(rng.random() * HALF_WORD) * HALF_WORD + int(rng.random() * HALF_WORD)


@kernel
def fill_row(numbers: NDArray[np.float64], row: int, n_numbers: int, seeds: NDArray[np.uint64]) -> None:
    """Generate the first `n_numbers` numbers of a row of a matrix."""
    start = [_mix(int(seed) + (row + 1) * GAMMA) for seed in seeds]
    _FAST.bit_generator.state = {**_STATE, "state": {"state": np.array([*start, 1], np.uint64)}}
    _FAST.standard_normal(out=numbers[row, :n_numbers])


def _mix(word: int) -> int:
    word &= ALL_BITS
    word = (word ^ (word >> 30)) * FIRST & ALL_BITS
    word = (word ^ (word >> 27)) * SECOND & ALL_BITS
    return word ^ (word >> 31)
