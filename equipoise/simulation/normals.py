"""Native versions of `equipoise.kernels.normals`: SFC64 and the ziggurat method with NumPy's tables."""

from __future__ import annotations

from math import exp, log1p
from typing import Any

import numba
import numpy as np
from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r
from numpy.typing import NDArray

from equipoise.kernels.marks import kernel, native
from equipoise.kernels.normals import FIRST, GAMMA, HALF_WORD, SECOND, fill_row, start_rows

uint64: Any = numba.uint64
TO_UNIT = 1.0 / 2.0**53


@native(start_rows)
def _start_rows(seeds: NDArray[np.uint64], rng: np.random.Generator) -> None:
    for position in range(3):
        high, low = uint64(rng.random() * HALF_WORD), uint64(rng.random() * HALF_WORD)
        seeds[position] = (high << uint64(32)) | low


@native(fill_row)
def _fill_row(numbers: NDArray[np.float64], row: int, n_numbers: int, seeds: NDArray[np.uint64]) -> None:
    shift = uint64(row + 1) * uint64(GAMMA)
    a, b, c, counter = _mixed(seeds[0] + shift), _mixed(seeds[1] + shift), _mixed(seeds[2] + shift), uint64(1)
    for column in range(n_numbers):
        while True:
            r, a, b, c, counter = _next(a, b, c, counter)
            index = r & uint64(0xFF)
            magnitude = (r >> uint64(9)) & uint64(0x000FFFFFFFFFFFFF)
            x = magnitude * wi_double[index]
            if (r >> uint64(8)) & uint64(1):
                x = -x
            if magnitude < ki_double[index]:  # 99 times in 100
                break
            if index == 0:
                tail, height = 0.0, 0.0
                while height + height <= tail * tail:
                    u, a, b, c, counter = _next(a, b, c, counter)
                    v, a, b, c, counter = _next(a, b, c, counter)
                    tail = -ziggurat_nor_inv_r * log1p(-((u >> uint64(11)) * TO_UNIT))
                    height = -log1p(-((v >> uint64(11)) * TO_UNIT))
                x = ziggurat_nor_r + tail
                if (magnitude >> uint64(8)) & uint64(1):
                    x = -x
                break
            u, a, b, c, counter = _next(a, b, c, counter)
            between = (fi_double[index - uint64(1)] - fi_double[index]) * ((u >> uint64(11)) * TO_UNIT)
            if between + fi_double[index] < exp(-0.5 * x * x):
                break
        numbers[row, column] = x


@kernel
def _next(a: Any, b: Any, c: Any, counter: Any) -> tuple[Any, Any, Any, Any, Any]:
    """One step of SFC64: the number and the next state."""
    number = uint64(a + b + counter)
    rotated = uint64((c << uint64(24)) | (c >> uint64(40)))
    return number, uint64(b ^ (b >> uint64(11))), uint64(c + (c << uint64(3))), rotated + number, counter + uint64(1)


@kernel
def _mixed(word: Any) -> Any:
    word = (word ^ (word >> uint64(30))) * uint64(FIRST)
    word = (word ^ (word >> uint64(27))) * uint64(SECOND)
    return uint64(word ^ (word >> uint64(31)))
