"""Many standard normal numbers at once, the same interpreted and compiled.

A context may need hundreds of normal numbers. Drawing them one by one from a counter-based generator is what a compiled
round would spend most of its time on, so four words of the given generator start a small fast one (SFC64), which makes
the numbers by the ziggurat method. Interpreted, NumPy's own SFC64 does that; the compiled twin is in
`equipoise.simulate.normals`.
References: Marsaglia and Tsang (2000), "The ziggurat method for generating random variables"; Doty-Humphrey's SFC64 as
documented in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.kernel import kernel

_FAST = np.random.Generator(np.random.SFC64(0))
_STATE: dict[str, Any] = {"bit_generator": "SFC64", "has_uint32": 0, "uinteger": 0}
WORD = 2**32


@kernel
def fill_normals(numbers: NDArray[np.float64], rng: np.random.Generator) -> None:
    """Fill a matrix, row by row, with independent standard normal numbers started from `rng`."""
    start = [_word(rng) for _ in range(3)]
    _FAST.bit_generator.state = {**_STATE, "state": {"state": np.array([*start, 1], np.uint64)}}
    _FAST.standard_normal(out=numbers)


@kernel
def _word(rng: np.random.Generator) -> int:
    # Two halves: a float holds no more than 53 bits.
    return int(rng.random() * WORD) * WORD + int(rng.random() * WORD)
