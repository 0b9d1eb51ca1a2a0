"""Every message at the edge names the argument, its value and the rule. Each message is asserted once."""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import errors
from equipoise.bounds import Observed, Power, SqrtLog
from equipoise.compatibility import check_compatible
from equipoise.errors import EquipoiseError, IncompatibleLearner, InvalidArgument, UnknownName
from equipoise.selectors import BalancedElimination
from equipoise.settings import checks as validation
from equipoise.settings.checks import (
    boolean,
    count,
    fraction,
    function,
    in_range,
    interval,
    measured,
    non_negative,
    one_of,
    positive,
    positive_fraction,
    probability,
    real,
    text,
)

BALANCED = [Power(0.5), Power(1.0)]


class Named:
    """A learner as `check_compatible` sees one."""

    name = "mine"

    def decide(self, context: Any) -> int:
        return 0

    def learn(self, context: Any, action: int, reward: float) -> None:
        pass


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: real("x", "0.5"), "x is '0.5', but must be a real number"),
    (lambda: real("x", None), "x is None, but must be a real number"),
    (lambda: real("x", math.nan), "x is nan, but must be a finite number of magnitude at most 1e+100"),
    (lambda: real("x", -1e155), "x is -1e+155, but must be a finite number of magnitude at most 1e+100"),
    (lambda: positive("x", 0.0), "x is 0.0, but must be positive, at least 1e-100"),
    (lambda: non_negative("x", -1), "x is -1, but must not be negative"),
    (lambda: probability("delta", 1.5), "delta is 1.5, but must lie in (0, 1)"),
    (lambda: fraction("x", 1.01), "x is 1.01, but must lie in [0, 1]"),
    (lambda: in_range("x", 2, (0.0, 1.5)), "x is 2, but must lie in reward_range (0, 1.5)"),
    (lambda: positive_fraction("x", 0), "x is 0, but must lie in (0, 1]"),
    (lambda: positive_fraction("x", 1.01), "x is 1.01, but must lie in (0, 1]"),
    (lambda: function("f", 3, of="n"), "f is 3, but must be a function of n"),
    (lambda: count("n", 2.5), "n is 2.5, but must be a whole number at least 1"),
    (lambda: count("n", True), "n is True, but must be a whole number at least 1"),
    (lambda: count("n", 9, 0, 8), "n is 9, but must be a whole number from 0 to 8"),
    (lambda: interval("range", 3), "range is 3, but must be a pair (low, high)"),
    (lambda: interval("range", "01"), "range is '01', but must be a pair (low, high)"),
    (lambda: interval("range", (1, 1)), "range is (1, 1), but must have low < high"),
    (
        lambda: interval("range", (0, math.inf)),
        "range[1] is inf, but must be a finite number of magnitude at most 1e+100",
    ),
    (
        lambda: interval("range", (1e9, 1e9 + 0.5)),
        "range is (1000000000.0, 1000000000.5), but must be wider than 1e-09 of its ends and 1e-100",
    ),
    (lambda: one_of("contexts", "none", ("random", "fixed")), "contexts is 'none', but must be one of random, fixed"),
    (lambda: boolean("share_data", 1), "share_data is 1, but must be True or False"),
    (lambda: text("name", ""), "name is '', but must be a nonempty string"),
    (lambda: BalancedElimination([]), "bounds is empty, but must have one bound per learner"),
    (lambda: BalancedElimination(5), "bounds is 5, but must have one bound per learner"),  # type: ignore[arg-type]
    (
        lambda: BalancedElimination([0.5]),  # type: ignore[list-item]
        "bounds has 0.5, but every entry must be one of Power, SqrtLog, LinearSqrt, Observed, Custom",
    ),
    (lambda: BalancedElimination(BALANCED, delta=0), "delta is 0, but must lie in (0, 1)"),
    (lambda: BalancedElimination(BALANCED, delta=1e-200), "delta is 1e-200, but must be positive, at least 1e-100"),
    (lambda: BalancedElimination(BALANCED, noise=-1), "noise is -1, but must be positive, at least 1e-100"),
    (
        lambda: BalancedElimination(BALANCED, reward_range=(0, 1e-170)),
        "reward_range is (0, 1e-170), but must be wider than 1e-09 of its ends and 1e-100",
    ),
    (lambda: BalancedElimination(BALANCED, contexts="iid"), "contexts is 'iid', but must be one of random, fixed"),
    (
        lambda: BalancedElimination(BALANCED, radius="wide"),
        "radius is 'wide', but must be one of mixture, stitched, paper, bernstein",
    ),
    (lambda: BalancedElimination(BALANCED, radius_scale=0), "radius_scale is 0, but must be positive, at least 1e-100"),
    (
        lambda: check_compatible(BalancedElimination(BALANCED), [Named()]),
        "learners has 1 entries, but Balanced elimination was created for 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refusal_names_argument_value_and_rule(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_integers_beyond_the_floating_point_range_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="must be a finite number"):
        real("x", 10**400)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), Fraction(2), Decimal(2), np.array(2.0)])
def test_every_kind_of_number_comes_back_as_a_plain_float(value: Any) -> None:
    for check in (real, positive, non_negative):
        assert check("x", value) == 2.0
        assert type(check("x", value)) is float


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_boolean_is_not_a_number_but_can_be_a_reward(value: Any) -> None:
    for check in (real, positive, non_negative, probability, fraction, positive_fraction, count):
        with pytest.raises(InvalidArgument, match=re.escape(f"x is {value!r}, but must be a ")):
            check("x", value)
    with pytest.raises(InvalidArgument, match="must be a real number"):
        interval("x", (value, 2.0))
    assert measured("x", value) == float(value) and type(measured("x", value)) is float
    assert measured("x", 0.25) == 0.25
    assert in_range("x", value, (0.0, 1.0)) == float(value)
    with pytest.raises(InvalidArgument, match="x is '1', but must be a real number"):
        measured("x", "1")


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7)])
def test_every_kind_of_whole_number_comes_back_as_a_plain_integer(value: Any) -> None:
    assert count("n", value) == 7
    assert type(count("n", value)) is int


@pytest.mark.parametrize("value", [np.True_, False, "3", 3.0, None, 0, -1])
def test_whatever_is_no_positive_whole_number_is_refused_as_a_count(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="must be a whole number at least 1"):
        count("n", value)


@given(st.floats())
def test_exactly_the_numbers_in_range_pass(value: float) -> None:
    sane = math.isfinite(value) and abs(value) <= 1e100
    rules = {
        real: sane,
        positive: sane and value >= 1e-100,
        non_negative: sane and value >= 0,
        probability: 1e-100 <= value < 1,
        fraction: 0 <= value <= 1,
    }
    for check, passes in rules.items():
        if passes:
            assert check("x", value) == value
        else:
            with pytest.raises(InvalidArgument, match=r"^x is .*, but must "):
                check("x", value)


@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
def test_an_interval_that_passes_has_a_width_whose_square_is_a_normal_number(low: float, high: float) -> None:
    try:
        assert interval("range", [low, high]) == (low, high)
    except InvalidArgument:
        assert high - low < max(1e-100, 1e-9 * max(abs(low), abs(high)))
    else:
        assert 1e-200 <= (high - low) ** 2 < math.inf


def test_unknown_names_are_answered_with_near_ones() -> None:
    assert str(UnknownName("bound", "Powr", ["Power", "SqrtLog"])) == "bound 'Powr' is unknown; did you mean Power?"
    assert str(UnknownName("bound", "x", ["Power", "Custom"])) == "bound 'x' is unknown; did you mean Custom, Power?"
    assert str(UnknownName("bound", "x", [])) == "bound 'x' is unknown; none is known"


def test_all_errors_are_one_family_and_fit_the_built_in_ones() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) >= 7
    assert all(issubclass(kind, EquipoiseError) for kind in kinds)
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(UnknownName, LookupError)


def test_every_check_is_tested_here() -> None:
    checks = {
        name
        for name, member in vars(validation).items()
        if callable(member) and member.__module__ == validation.__name__
    }
    assert checks <= set(globals())


def needing(what: str) -> Any:
    """A selector that needs `what` of its one learner, as `check_compatible` sees one."""
    selector = BalancedElimination([SqrtLog(1.0, 0.1)])
    selector.needs = frozenset({what})
    return selector


def test_a_selector_says_which_learner_lacks_what() -> None:
    with pytest.raises(IncompatibleLearner) as caught:
        check_compatible(needing("weight"), [Named()])
    assert str(caught.value) == (
        "Balanced elimination needs learners that accept importance weights, but 'mine' does not"
    )
    with pytest.raises(IncompatibleLearner) as caught:
        check_compatible(needing("lower"), [Named()])
    assert str(caught.value) == "Balanced elimination needs a lower bound from every learner, but 'mine' provides none"
    with pytest.raises(IncompatibleLearner) as caught:
        check_compatible(BalancedElimination([Observed()]), [Named()])
    assert str(caught.value) == ("bound 0 of Balanced elimination is Observed, but learner 'mine' provides no 'regret'")
