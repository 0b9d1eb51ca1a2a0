"""The regret that theory promises of balancing and elimination, as numbers, for closed-form candidate bounds.

All hold with probability 1 - delta for any learner * that keeps its bound, whatever the others do. D is the radius over
all T rounds, B the number of misspecified learners out of M, w the width of the expected rewards.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", theorem on bounds d_i C n^beta and theorem on bounds C_1 sqrt(n) + eps_i C_2 n with its lemma.
Departures: in the first theorem as printed the play ratio is 2 (d_j/d_i)^(1/beta), but its lemma gives
(2 d_j/d_i)^(1/beta); it is stated here for any coefficients, without the normalisation d_i >= 1. The second is printed
without constants; here they are those of its lemma, summed over the misspecified learners.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from equipoise.errors import InvalidArgument


def power_guarantee(
    coefficients: Sequence[float],
    exponent: float,
    well_specified: Sequence[bool],
    *,
    rounds: int,
    radius: float,
    width: float = 1.0,
) -> float:
    """The least guarantee with bounds c_i n^beta; `radius` is D(T).

    Reg(T) <= M c_* T^beta + c_* Z^(1-beta) T^beta + 2 M w + 2 (sqrt(B) + sqrt(Z)) D(T), with Z the sum over the
    misspecified i of max(2, (2 c_*/c_i)^(1/beta)).

    >>> round(power_guarantee([1.0, 2.0], 0.5, [False, True], rounds=100, radius=10.0))
    224
    """
    _check(coefficients, well_specified)
    n_learners = len(coefficients)
    wrong = [c for c, true in zip(coefficients, well_specified, strict=True) if not true]
    promises: list[float] = []
    for best, true in zip(coefficients, well_specified, strict=True):
        if true:
            ratio = sum(max(2.0, (2 * best / c) ** (1 / exponent)) for c in wrong)
            learning = (n_learners + ratio ** (1 - exponent)) * best * rounds**exponent
            promises.append(learning + 2 * n_learners * width + 2 * (sqrt(len(wrong)) + sqrt(ratio)) * radius)
    return min(promises)


def linear_sqrt_guarantee(
    slopes: Sequence[float],
    coefficient: float,
    well_specified: Sequence[bool],
    *,
    rounds: int,
    radius: float,
    width: float = 1.0,
) -> float:
    """The least guarantee with bounds C_1 sqrt(n) + s_i n, for * with s_* >= s_i for all misspecified i; inf if none.

    With R_* its bound at T and D_1 = D(T)/sqrt(T): Reg(T) <= (M - B)(R_* + w) + B (w + 10 R_* + 8 C_1^2 + 8 C_1 D_1)
    + 2 s_* (1 + D_1/C_1) T + 8 sqrt(B) D(T) + 2 C_1 sqrt(B T).

    >>> round(linear_sqrt_guarantee([0.5, 0.1], 1.0, [True, True], rounds=100, radius=10.0))
    42
    """
    _check(slopes, well_specified)
    wrong = [slope for slope, true in zip(slopes, well_specified, strict=True) if not true]
    n_wrong, per_root = len(wrong), radius / sqrt(rounds)
    promises = [float("inf")]
    for slope, true in zip(slopes, well_specified, strict=True):
        if not true or any(other > slope for other in wrong):
            continue
        bound = min(coefficient * sqrt(rounds) + slope * rounds, width * rounds)
        promise = (len(slopes) - n_wrong) * (bound + width)
        if wrong:
            promise += n_wrong * (width + 10 * bound + 8 * coefficient**2 + 8 * coefficient * per_root)
            promise += 2 * slope * (1 + per_root / coefficient) * rounds
            promise += 8 * sqrt(n_wrong) * radius + 2 * coefficient * sqrt(n_wrong * rounds)
        promises.append(promise)
    return min(promises)


def _check(bounds: Sequence[float], well_specified: Sequence[bool]) -> None:
    if len(bounds) != len(well_specified):
        raise InvalidArgument(f"well_specified has {len(well_specified)} entries, but there are {len(bounds)} bounds")
    if not any(well_specified):
        raise InvalidArgument("well_specified has no True, but the guarantee needs a learner that keeps its bound")
