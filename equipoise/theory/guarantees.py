"""Guarantees of Algorithm 1 with explicit constants: the lemmas behind it, and its theorems with and without gaps.

Each docstring names the theorem by its label in the paper's source and states its assumptions; arguments that violate
an assumption raise an error. `docs/theory.md` lists all of them with their checks.

R_i is the admissible bound of learner i, n_i its plays, D the radius of a sum (`equipoise.confidence`), w the width of
the expected rewards, B the number of misspecified learners out of M; * is any learner that satisfies its bound. D_1,
the largest D(n)/sqrt(n) over n <= T, is called `per_root`. Where the paper has D(T), closed forms take sqrt(T) D_1, as
D(n)/sqrt(n) of the default radius falls between some hundred and some thousand plays: `rooted_radius`. All statements
hold with probability 1 - delta simultaneously for all T.
A learner has the gap Delta and the exponent alpha if its regret over n plays is at least Delta n^alpha, at every n.
With alpha above 1/2 and above the exponent of its bound the test must fire; N_i is the largest number of plays at which
learner i can pass it.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": lem:balancing, lem:regbound_nonelim, lem:suff_cond_elimination, lem:general_ratio_bound,
lem:sqrt_ratio_bound, thm:general_regbound, thm:poly_reg, thm:sqrt_reg, thm:linTmissp, lem:lin_sqrt_regret_bound,
lem:elimination_gen_obs, thm:poly_reg_gap, lem:elimination_sqrt_obs and thm:sqrt_reg_gap.
Departures: docs/theory.md lists the correction of each statement, docs/theory-notes.md has the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import e, log, sqrt
from typing import NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack

from equipoise.confidence import Mixture, Radius, Stitched, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.selectors._core.outlook import first_true
from equipoise.settings.checks import count, non_negative, positive, probability, real

# One entry per learner: coefficients or bounds, whether it is well specified, and its gap, None if it is.
Sizes: TypeAlias = Sequence[float]
Flags: TypeAlias = Sequence[bool]
Gaps: TypeAlias = Sequence[float | None]


ROUNDING = 1 - 1e-12  # two expressions of one radius may differ by less


class Terms(TypedDict):
    """What every closed form depends on in addition to the bounds."""

    rounds: int
    radius: float  # sqrt(T) D_1: `rooted_radius` of the sum of `rounds` rewards
    width: NotRequired[float]  # of the reward range; 1 by default


def rooted_radius(radius: Radius, rounds: int) -> float:
    """sqrt(T) D_1, the largest D(n) sqrt(T/n) over n <= T.

    D(n)/sqrt(n) grows with n, but for the mixture radius: that grows where the stitched boundary is the smaller one,
    then falls, and grows again from some thousand plays on. So its maximum is at T or where the two boundaries cross.

    >>> from equipoise.confidence import make_radius
    >>> radius = make_radius("mixture", n_learners=5, delta=0.05, width=1.0, noise=None, contexts="random", scale=1.0)
    >>> [round(rooted_radius(radius, rounds) / rounds**0.5, 2) for rounds in (100, 5_400, 10**6)]
    [3.25, 3.3, 3.3]
    """
    plays = {count("rounds", rounds)}
    if isinstance(radius, Mixture):
        stitching = Stitched(radius.variance, radius.variance, radius.level, radius.scale)
        # The normal mixture falls up to its minimum, which is far beyond the first crossing.
        crossing = first_true(lambda n: radius_sum(radius, n) < ROUNDING * radius_sum(stitching, n)) or rounds
        plays |= {min(n, rounds) for n in (crossing - 1, crossing) if n > 0}
    return max(radius_sum(radius, n) / sqrt(n) for n in plays) * sqrt(rounds)


def imbalance(regret_bounds: Sizes) -> float:
    """The largest difference between the bounds of active learners; by lem:balancing at most w, at every round.

    >>> imbalance([3.0, 3.5, 2.75])
    0.75
    """
    return max(regret_bounds) - min(regret_bounds)


def survivor_regret(
    plays: int, regret_bound: float, best_plays: int, best_bound: float, radius: Callable[[int], float]
) -> float:
    """R_i + (n_i/n_*)(R_* + 2 D(n_*)) + 2 D(n_i): upper bound on the regret of a learner that passed the
    test (lem:regbound_nonelim); one with larger regret fails it (lem:suff_cond_elimination).

    The printed form has R_* + w instead of R_i, by balancing, and the radius at t instead of those at n_i and n_*.

    >>> survivor_regret(100, 10.0, 50, 5.0, lambda n: n**0.5)
    68.2842712474619
    """
    n, best_n = count("plays", plays), count("best_plays", best_plays)
    best = non_negative("best_bound", best_bound) + 2 * radius(best_n)
    return non_negative("regret_bound", regret_bound) + n / best_n * best + 2 * radius(n)


def power_ratio(
    coefficient: float,
    best_coefficient: float,
    exponent: float,
    best_exponent: float | None = None,
    best_plays: int | None = None,
) -> float:
    """Z_i, the largest possible n_i/n_*, for active learners with bounds min(c n^beta, w n): lem:general_ratio_bound.

    max(2, (2 c_*/c_i)^(1/beta_i) n_*^(beta_*/beta_i - 1)); the last factor is 1 for equal exponents and
    otherwise needs `best_plays`, the plays of * (their maximum if beta_* > beta_i, their minimum if beta_* < beta_i).

    >>> power_ratio(1.0, 3.0, 0.5)
    36.0
    """
    own = check_exponent(exponent)
    base = 2 * positive("best_coefficient", best_coefficient) / positive("coefficient", coefficient)
    spread = (own if best_exponent is None else check_exponent(best_exponent)) / own - 1
    factor = count("best_plays", best_plays) ** spread if spread else 1.0
    return max(2.0, float(base ** (1 / own)) * factor)


def sqrt_log_ratio(coefficient: float, best_coefficient: float, bound_delta: float) -> float:
    """Z_i for bounds min(c sqrt(n ln_+(n/delta)), w n), as for square roots: lem:sqrt_ratio_bound, without its factor.

    From c_i^2 n_i ln_+(n_i/delta) <= 4 c_*^2 n_* ln_+(n_*/delta): either n_i < n_*, or the logarithms make
    the ratio smaller.

    >>> sqrt_log_ratio(1.0, 3.0, 0.05)
    36.0
    """
    check_bound_delta(bound_delta)
    return power_ratio(coefficient, best_coefficient, 0.5)


class Passed(NamedTuple):
    """State of a misspecified learner in the last round in which it passed the test, and of * in the same round."""

    plays: int
    regret_bound: float
    best_plays: int
    best_bound: float


def general_guarantee(
    kept_bounds: Sizes, passed: Sequence[Passed | None], radius: Callable[[int], float], *, width: float = 1.0
) -> float:
    """thm:general_regbound in terms of the actual play counts, for every admissible bound, including observed ones.

    `kept_bounds` are R_i(n_i(T)) of the well-specified learners; `passed` has an entry for each of the others, None for
    one that was never tested and so was played at most once.

    >>> general_guarantee([5.0], [Passed(100, 10.0, 50, 5.0)], lambda n: n**0.5)
    74.2842712474619
    """
    if not kept_bounds:
        raise InvalidArgument("kept_bounds is empty, but must have an entry for at least one learner")
    positive("width", width)
    total = sum(non_negative("kept_bounds", bound) for bound in kept_bounds)
    return total + sum(width + (0.0 if row is None else survivor_regret(*row, radius)) for row in passed)


def power_guarantee(coefficients: Sizes, exponent: float, well_specified: Flags, **terms: Unpack[Terms]) -> float:
    """thm:poly_reg, corrected: the smallest guarantee with bounds c_i n^beta.

    Reg(T) <= M c_* T^beta + c_* Z^(1-beta) T^beta + 2 M w + 2 (sqrt(B) + sqrt(Z)) D(T), with Z the sum over the
    misspecified i of Z_i = max(2, (2 c_*/c_i)^(1/beta)).

    >>> round(power_guarantee([1.0, 2.0], 0.5, [False, True], rounds=100, radius=10.0))
    224
    """
    growth = count("rounds", terms["rounds"]) ** check_exponent(exponent)
    return _rooted(coefficients, exponent, well_specified, growth, terms)


def sqrt_log_guarantee(coefficients: Sizes, bound_delta: float, well_specified: Flags, **terms: Unpack[Terms]) -> float:
    """thm:sqrt_reg, corrected: the smallest guarantee with bounds c_i sqrt(n ln_+(n/delta)), `bound_delta` their delta.

    As `power_guarantee` for square roots, with sqrt(T ln_+(T/delta)) for sqrt(T).

    >>> round(sqrt_log_guarantee([1.0, 2.0], 0.05, [False, True], rounds=100, radius=10.0))
    435
    """
    growth = _sqrt_log_growth(count("rounds", terms["rounds"]), bound_delta)
    return _rooted(coefficients, 0.5, well_specified, growth, terms)


def _sqrt_log_growth(rounds: int, bound_delta: float) -> float:
    """sqrt(T ln_+(T/delta))."""
    return sqrt(rounds * log(max(rounds / check_bound_delta(bound_delta), e)))


def _rooted(coefficients: Sizes, exponent: float, well_specified: Flags, growth: float, terms: Terms) -> float:
    check_pool(coefficients, well_specified)
    _, radius, width = check_terms(terms)
    n_learners = len(coefficients)
    misspecified = [c for c, true in zip(coefficients, well_specified, strict=True) if not true]

    def guarantee(best: float) -> float:
        ratio = sum(power_ratio(c, best, exponent) for c in misspecified)
        extra = ratio ** (1 - exponent) if misspecified else 0.0
        learning = (n_learners + extra) * best * growth
        return learning + 2 * n_learners * width + 2 * (sqrt(len(misspecified)) + sqrt(ratio)) * radius

    return min(guarantee(best) for best, true in zip(coefficients, well_specified, strict=True) if true)


def linear_sqrt_guarantee(slopes: Sizes, coefficient: float, well_specified: Flags, **terms: Unpack[Terms]) -> float:
    """thm:linTmissp with constants: the smallest guarantee with bounds C_1 sqrt(n) + s_i n, for * with s_* >= s_i for
    all misspecified i; inf if there is none. The regret of the misspecified ones is at most `linear_sqrt_survivor` at
    their plays, which sum to at most T.

    >>> round(linear_sqrt_guarantee([0.5, 0.1], 1.0, [True, True], rounds=100, radius=10.0))
    42
    """
    check_pool([1 + non_negative(f"slopes[{i}]", slope) for i, slope in enumerate(slopes)], well_specified)
    rounds, radius, width = check_terms(terms)
    misspecified = [slope for slope, true in zip(slopes, well_specified, strict=True) if not true]
    guarantees = [float("inf")]
    for slope, true in zip(slopes, well_specified, strict=True):
        if not true or any(other > slope for other in misspecified):
            continue
        bound = min(coefficient * sqrt(rounds) + slope * rounds, width * rounds)
        guarantee = (len(slopes) - len(misspecified)) * (bound + width)
        if misspecified:
            shared = {"width": width, "per_root": radius / sqrt(rounds)}
            # Terms in n_i and sqrt(n_i) are largest for equal plays: B times one learner with T/B plays.
            share = rounds / len(misspecified)
            guarantee += len(misspecified) * (width + linear_sqrt_survivor(slope, coefficient, share, bound, **shared))
        guarantees.append(guarantee)
    return min(guarantees)


def linear_sqrt_survivor(
    slope: float, coefficient: float, plays: float, best_bound: float, *, per_root: float, width: float = 1.0
) -> float:
    """lem:lin_sqrt_regret_bound, corrected: bound on the regret of a learner that passed the test after n_i plays.

    w + (1 + k^2) R_* + 2 s_* (1 + D_1/C_1) n_i + ((2 + 2 k) D_1 + 2 k C_1) sqrt(n_i) + 8 C_1 (C_1 + D_1)/w, where
    `slope` is s_* >= s_i, `best_bound` R_*(n_*), `per_root` D_1 >= D(n)/sqrt(n), and k = 2 + min(w/C_1, 2), which is 3
    in the paper.

    >>> linear_sqrt_survivor(0.1, 1.0, 100, 20.0, per_root=1.0)
    397.0
    """
    root, own = sqrt(positive("plays", plays)), positive("coefficient", coefficient)
    k = 2 + min(positive("width", width) / own, 2)
    learning = width + (1 + k**2) * best_bound + 8 * own * (own + per_root) / width
    linear = 2 * non_negative("slope", slope) * (1 + per_root / own) * plays
    return learning + linear + ((2 + 2 * k) * per_root + 2 * k * own) * root


def power_plays(
    coefficient: float,
    best_coefficient: float,
    exponent: float,
    *,
    gap: float,
    gap_exponent: float = 1.0,
    per_root: float,
    best_exponent: float | None = None,
    best_plays: int | None = None,
) -> float:
    """lem:elimination_gen_obs, corrected: the largest number of plays of a learner with a gap and bound c_j n^beta.

    1 + max( [(2/Delta) A]^(1/(alpha-beta)), [(4/Delta)(1 + sqrt(Z)) D_1]^(1/(alpha-1/2)) ), with A = c_j + c_*
    Z^(1-beta) for equal exponents and (1 + 2 Z) c_j otherwise; Z as in `power_ratio`.

    >>> round(power_plays(1.0, 1.0, 0.5, gap=0.5, per_root=2.0))
    2305
    """
    check_gap(gap, gap_exponent, check_exponent(exponent))
    ratio = power_ratio(coefficient, best_coefficient, exponent, best_exponent, best_plays)
    if best_exponent is None or best_exponent == exponent:
        learning = coefficient + best_coefficient * ratio ** (1 - exponent)
    else:
        learning = (1 + 2 * ratio) * coefficient
    by_bounds = (2 / gap * learning) ** (1 / (gap_exponent - exponent))
    by_noise = (4 / gap * (1 + sqrt(ratio)) * positive("per_root", per_root)) ** (1 / (gap_exponent - 0.5))
    return 1 + float(max(by_bounds, by_noise))


def sqrt_log_plays(
    coefficient: float,
    best_coefficient: float,
    bound_delta: float,
    *,
    gap: float,
    gap_exponent: float = 1.0,
    per_root: float,
    rounds: int,
) -> float:
    """lem:elimination_sqrt_obs, corrected: the largest number of plays with bound c_j sqrt(n ln_+(n/delta)).

    1 + [ ((c_j + c_* sqrt(Z)) sqrt(ln_+(T/delta)) + 2 (1 + sqrt(Z)) D_1) / Delta ]^(1/(alpha-1/2)).

    >>> round(sqrt_log_plays(1.0, 1.0, 0.05, gap=0.5, per_root=2.0, rounds=1000))
    1840
    """
    check_gap(gap, gap_exponent, 0.5)
    slope = _sqrt_log_slope(coefficient, best_coefficient, bound_delta, per_root, rounds)
    return 1 + float((slope / gap) ** (1 / (gap_exponent - 0.5)))


def power_gap_guarantee(
    coefficients: Sizes, exponent: float, gaps: Gaps, *, gap_exponent: float = 1.0, **terms: Unpack[Terms]
) -> float:
    """thm:poly_reg_gap with constants: the smallest guarantee with bounds c_i n^beta; `gaps` has None for the
    well-specified learners.

    (M - B)(c_* T^beta + w) + sum over the others of w + (c_i + c_* Z_i^(1-beta)) N_i^beta + 2 (1 + sqrt(Z_i)) D_1
    sqrt(N_i), where N_i is the smaller of `power_plays` - 1 and T.

    >>> round(power_gap_guarantee([1.0, 2.0], 0.5, [0.5, None], rounds=10**6, radius=3000.0))
    6682
    """
    rounds, radius, width = check_terms(terms)
    per_root = radius / sqrt(rounds)

    def survivor(c: float, best: float, gap: float) -> float:
        ratio = power_ratio(c, best, exponent)
        n_plays = power_plays(c, best, exponent, gap=gap, gap_exponent=gap_exponent, per_root=per_root)
        n = min(n_plays - 1, rounds)
        learning: float = (c + best * ratio ** (1 - exponent)) * n**exponent
        return learning + 2 * (1 + sqrt(ratio)) * per_root * sqrt(n)

    return _with_gaps(coefficients, gaps, width, lambda best: best * rounds**exponent, survivor)


def sqrt_log_gap_guarantee(
    coefficients: Sizes, bound_delta: float, gaps: Gaps, *, gap_exponent: float = 1.0, **terms: Unpack[Terms]
) -> float:
    """thm:sqrt_reg_gap with the constants of `sqrt_log_plays`; the arguments are as in `power_gap_guarantee`.

    >>> round(sqrt_log_gap_guarantee([1.0, 2.0], 0.05, [0.5, None], rounds=10**6, radius=3000.0))
    17154
    """
    rounds, radius, width = check_terms(terms)
    per_root = radius / sqrt(rounds)

    def survivor(c: float, best: float, gap: float) -> float:
        slope = _sqrt_log_slope(c, best, bound_delta, per_root, rounds)
        known = {"gap": gap, "gap_exponent": gap_exponent, "per_root": per_root}
        return slope * sqrt(min(sqrt_log_plays(c, best, bound_delta, rounds=rounds, **known) - 1, rounds))

    growth = _sqrt_log_growth(rounds, bound_delta)
    return _with_gaps(coefficients, gaps, width, lambda best: best * growth, survivor)


def _with_gaps(
    coefficients: Sizes,
    gaps: Gaps,
    width: float,
    own: Callable[[float], float],
    survivor: Callable[[float, float, float], float],
) -> float:
    """Return the smallest guarantee over the well-specified learners *.

    own(c_*) bounds the regret of each well-specified learner, survivor(c_i, c_*, gap) the regret of each other one.
    """
    well_specified = [gap is None for gap in gaps]
    check_pool(coefficients, well_specified)
    return min(
        sum(well_specified) * (own(best) + width)
        + sum(width + survivor(c, best, gap) for c, gap in zip(coefficients, gaps, strict=True) if gap is not None)
        for best, true in zip(coefficients, well_specified, strict=True)
        if true
    )


def _sqrt_log_slope(coefficient: float, best: float, bound_delta: float, per_root: float, rounds: int) -> float:
    """Upper bound on the regret of a learner that passes the test, divided by the square root of its plays."""
    root = sqrt(sqrt_log_ratio(coefficient, best, bound_delta))
    logs = log(max(count("rounds", rounds) / check_bound_delta(bound_delta), e))
    return (coefficient + best * root) * sqrt(logs) + 2 * (1 + root) * positive("per_root", per_root)


def check_pool(bounds: Sizes, well_specified: Flags) -> None:
    """Check that there is one positive number per learner, and at least one well-specified learner."""
    if len(bounds) != len(well_specified):
        raise InvalidArgument(
            f"well_specified has {len(well_specified)} entries, but must have {len(bounds)}, one per bound"
        )
    if not any(well_specified):
        raise InvalidArgument("well_specified has no True, but must have at least one")
    for i, number in enumerate(bounds):
        positive(f"coefficients[{i}]", number)


def check_terms(terms: Terms) -> tuple[int, float, float]:
    """Return rounds, radius and width."""
    width = positive("width", terms.get("width", 1.0))
    return count("rounds", terms["rounds"]), positive("radius", terms["radius"]), width


def check_exponent(exponent: float) -> float:
    number = real("exponent", exponent)
    if not 0.0 < number <= 1.0:
        raise InvalidArgument(f"exponent is {exponent!r}, but must lie in (0, 1]")
    return number


def check_gap(gap: float, gap_exponent: float, exponent: float) -> None:
    """Check that elimination can detect a gap Delta n^alpha: alpha above 1/2 and above the exponent of the bounds."""
    positive("gap", gap)
    if not max(0.5, exponent) < real("gap_exponent", gap_exponent) <= 1.0:
        raise InvalidArgument(f"gap_exponent is {gap_exponent!r}, but must lie in ({max(0.5, exponent):g}, 1]")


def check_bound_delta(bound_delta: float) -> float:
    """Check the delta of bounds c sqrt(n ln_+(n / delta)); with a larger one they are not concave."""
    if probability("bound_delta", bound_delta) > 1 / e:
        raise InvalidArgument(f"bound_delta is {bound_delta!r}, but must be at most 1/e for concave bounds")
    return bound_delta
