"""The paper's two summary tables with numbers: each guarantee of Algorithm 1, corrected and as printed.

B learners are misspecified and have the smallest bounds, d_i = 1; the others have d_i = d. In the second table each
misspecified learner has regret `gap` in every play. `python -m tools.pages guarantees` writes the page.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", tables labeled tab:summary_worst_case and tab:summary_gap_bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import e, log, sqrt
from textwrap import fill
from typing import NamedTuple

from equipoise.confidence import RadiusSettings, make_radius, radius_sum
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.lab.report.kit import LINE, MISSING, text_table
from equipoise.settings.checks import count, positive, probability
from equipoise.theory.guarantees import (
    Terms,
    linear_sqrt_guarantee,
    power_gap_guarantee,
    power_guarantee,
    sqrt_log_gap_guarantee,
    sqrt_log_guarantee,
)
from equipoise.types import Config, Plain
from tools.pages.printed import (
    Pool,
    printed_power_gap_order,
    printed_power_guarantee,
    printed_sqrt_log_gap,
    printed_sqrt_log_guarantee,
)

DEFAULTS: Mapping[str, Plain] = {
    "M": 5,
    "B": 2,
    "d": 4.0,
    "C": 1.0,
    "eps": 0.01,
    "gap": 0.2,
    "delta": 0.05,
    "T": [10_000, 1_000_000, 100_000_000],
}


def stitched_deviation(n_learners: int, rounds: int, delta: float, width: float = 1.0) -> float:
    """Return D(T) of the stitched radius for bounded rewards and random contexts."""
    settings = RadiusSettings(n_learners=n_learners, delta=delta, width=width, noise=None, contexts="random", scale=1.0)
    return radius_sum(make_radius("stitched", **settings), rounds)


class Case(NamedTuple):
    """The setting of one column of numbers, at one T."""

    n_learners: int
    n_misspecified: int
    size: float
    constant: float
    error: float
    gap: float
    delta: float
    rounds: int

    @property
    def well_specified(self) -> list[bool]:
        return [i >= self.n_misspecified for i in range(self.n_learners)]

    @property
    def sizes(self) -> list[float]:
        return [self.size if true else 1.0 for true in self.well_specified]

    @property
    def coefficients(self) -> list[float]:
        return [self.constant * size for size in self.sizes]

    @property
    def gaps(self) -> list[float | None]:
        return [None if true else self.gap for true in self.well_specified]

    @property
    def pool(self) -> Pool:
        return Pool(self.size, self.constant, self.n_learners, self.n_misspecified)

    @property
    def terms(self) -> Terms:
        radius = stitched_deviation(self.n_learners, self.rounds, self.delta)
        return {"rounds": self.rounds, "radius": radius, "width": 1.0}

    @property
    def log_term(self) -> float:
        return log(self.n_learners * log(self.rounds) / self.delta)


class Row(NamedTuple):
    """A row of a table: the bounds, the paper's rate, and numbers as functions of the case."""

    bounds: str
    rate: str
    own: Callable[[Case], float]  # the bound of the best learner
    corrected: Callable[[Case], float]
    printed: Callable[[Case], float] | None  # None if the paper has no constants
    proof: str


def case_of(settings: Mapping[str, Plain], rounds: int) -> Case:
    """The case described by complete settings; raises an error if they are invalid."""
    n_learners = count("M", settings["M"], minimum=2)
    return Case(
        n_learners,
        count("B", settings["B"], minimum=0, maximum=n_learners - 1),
        _at_least_one("d", settings["d"]),
        _at_least_one("C", settings["C"]),
        positive("eps", settings["eps"]),
        positive("gap", settings["gap"]),
        probability("delta", settings["delta"]),
        count("T", rounds, minimum=3),
    )


def _power(exponent: float, name: str, rate: str) -> Row:
    return Row(
        f"d C n^{name}",
        rate,
        lambda case: case.size * case.constant * case.rounds**exponent,
        lambda case: power_guarantee(case.coefficients, exponent, case.well_specified, **case.terms),
        lambda case: printed_power_guarantee(case.pool, exponent, rounds=case.rounds, radius=case.terms["radius"]),
        "thm:poly_reg",
    )


def _power_gap(exponent: float, name: str, rate: str) -> Row:
    arbitrary = _power(exponent, name, rate)

    def corrected(case: Case) -> float:
        with_gaps = power_gap_guarantee(case.coefficients, exponent, case.gaps, **case.terms)
        return min(with_gaps, arbitrary.corrected(case))

    def printed(case: Case) -> float:
        bounds, best = (case.sizes, case.constant, exponent), case.n_learners - 1
        return printed_power_gap_order(*bounds, case.gaps, best, rounds=case.rounds, log_term=case.log_term)

    return arbitrary._replace(corrected=corrected, printed=printed, proof="thm:poly_reg_gap")


def _sqrt_log_own(case: Case) -> float:
    return case.size * case.constant * sqrt(case.rounds * log(max(case.rounds / case.delta, e)))


def _linear_own(case: Case) -> float:
    return case.error * case.rounds + case.constant * sqrt(case.rounds)


def _linear(case: Case) -> float:
    slopes = [case.error if true else case.error / 2 for true in case.well_specified]
    return linear_sqrt_guarantee(slopes, case.constant, case.well_specified, **case.terms)


SQRT_LOG = Row(
    "d C sqrt(n ln(n/delta))",
    "(M + sqrt(B) d) d C sqrt(T ln(T/delta))",
    _sqrt_log_own,
    lambda case: sqrt_log_guarantee(case.coefficients, case.delta, case.well_specified, **case.terms),
    lambda case: printed_sqrt_log_guarantee(
        case.pool,
        case.delta,
        rounds=case.rounds,
        deviation=1.29 * log(11 * case.n_learners * log(case.rounds) / case.delta),
    ),
    "thm:sqrt_reg",
)
WORST_CASE = (
    _power(1 / 3, "(1/3)", "(M + B^(2/3) d^2) d C T^(1/3) + d^(3/2) sqrt(B T)"),
    _power(2 / 3, "(2/3)", "(M + B^(1/3) sqrt(d)) d C T^(2/3) + d^(3/4) sqrt(B T)"),
    _power(1 / 2, "(1/2)", "(M + sqrt(B) d) d C sqrt(T)"),
    SQRT_LOG,
    Row("eps n + C sqrt(n)", "M (eps T + C sqrt(T)) + M C^2", _linear_own, _linear, None, "thm:linTmissp"),
)
GAPS = (
    _power_gap(1 / 3, "(1/3)", "M d C T^(1/3) + sum C^2 (d^6 + d d_i)/gap ln(M ln T/delta)"),
    _power_gap(2 / 3, "(2/3)", "M d C T^(2/3) + sum C^3 (d^4.5 + d d_i^2)/gap^2 sqrt(ln(ln T/delta))"),
    _power_gap(1 / 2, "(1/2)", "M d C sqrt(T) + sum C^2 (d^4 + d d_i)/gap sqrt(ln(ln T/delta))"),
    SQRT_LOG._replace(
        rate="M d C sqrt(T ln(T/delta)) + sum C^2 (d^4 + d d_i)/gap ln^(3/4)(M T/delta) ln^(3/2)(ln T/delta)",
        corrected=lambda case: min(
            sqrt_log_gap_guarantee(case.coefficients, case.delta, case.gaps, **case.terms), SQRT_LOG.corrected(case)
        ),
        printed=lambda case: printed_sqrt_log_gap(
            case.sizes, case.constant, case.delta, case.gaps, case.n_learners - 1, rounds=case.rounds
        ),
        proof="thm:sqrt_reg_gap",
    ),
)


def complete(overrides: Mapping[str, Plain]) -> Config:
    """Settings with defaults filled in; unknown settings raise an error."""
    for key in overrides:
        if key not in DEFAULTS:
            raise UnknownName("setting of the guarantees", key, DEFAULTS)
    return {**DEFAULTS, **overrides}


def page(overrides: Mapping[str, Plain]) -> str:
    """The page docs/guarantees.md."""
    settings = complete(overrides)
    all_rounds = settings["T"] if isinstance(settings["T"], list) else [settings["T"]]
    cases = [case_of(settings, rounds) for rounds in all_rounds]
    return "\n".join(_lines(settings, cases)) + "\n"


def _lines(settings: Mapping[str, Plain], cases: Sequence[Case]) -> Iterator[str]:
    chosen = ", ".join(f"{name} = {value}" for name, value in settings.items() if name != "T")
    yield "# Guarantees in numbers\n"
    yield _paragraphs(f"""\
The two summary tables of the paper on regret bound balancing and elimination, for Algorithm 1, with numbers for
{chosen}: of M learners B are misspecified and have the smallest bounds (d_i = 1), the others have d_i = d. Rewards lie
in [0, 1], contexts are random. [Theory](theory.md) says what was checked and corrected.

*Best alone* is the bound of the best learner, *guaranteed* the proved bound of the selector with explicit constants,
*printed* the paper's form with D(T) for c sqrt(T ln(M ln T/delta)), if it has constants; in the second table the
printed form of powers is the expression in its O(...), and the smaller of both tables' guarantees is shown. A number
above T is vacuous, as no regret is larger than T, and is in *italics*. `python -m tools.pages guarantees --set M=8
--set T=[1000000]` writes this page for other numbers.
""")
    for title, label, rows in (
        ("For arbitrary misspecified learners", "tab:summary_worst_case", WORST_CASE),
        (f"If each misspecified learner has regret {settings['gap']} per play", "tab:summary_gap_bounds", GAPS),
    ):
        yield f"## {title}\n\nThe paper's table `{label}`.\n"
        head = [f"T = {case.rounds:,}: best alone, guaranteed, printed" for case in cases]
        cells = [(row.bounds, row.rate, *(_numbers(row, case) for case in cases), f"`{row.proof}`") for row in rows]
        yield text_table(("bounds", "the paper's rate", *head, "proof"), cells).markdown + "\n"
    yield "*Written by `python -m tools.pages guarantees`.*"


def _paragraphs(text: str) -> str:
    return "\n\n".join(fill(part, LINE, break_on_hyphens=False) for part in text.strip().split("\n\n")) + "\n"


def _numbers(row: Row, case: Case) -> str:
    computed = (None if number is None else number(case) for number in (row.own, row.corrected, row.printed))
    return ", ".join(_number(value, case.rounds) for value in computed)


def _number(value: float | None, rounds: int) -> str:
    if value is None:
        return MISSING
    shown = f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"
    return shown if value < rounds else f"*{shown}*"


def _at_least_one(name: str, value: Plain) -> float:
    number = positive(name, value)
    if number < 1.0:
        raise InvalidArgument(f"{name} is {value!r}, but must be at least 1, as in the printed theorems")
    return number
