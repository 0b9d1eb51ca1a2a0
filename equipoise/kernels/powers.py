"""Powers by multiplication: equal bits with every mathematical library, and interpreted as compiled."""

from __future__ import annotations

from equipoise.kernels.marks import kernel


@kernel
def power(base: float, n: int) -> float:
    """Return base to the power of n >= 0, a whole number.

    >>> power(5, 3), power(0.5, 2), power(3.0, 0)
    (125.0, 0.25, 1.0)
    """
    product = 1.0 * base if n > 0 else 1.0
    for _ in range(n - 1):
        product *= base
    return product
