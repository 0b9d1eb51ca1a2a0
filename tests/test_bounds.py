"""Bounds are plain data, and whatever they claim is made admissible: R(0) = 0, never falling, by at most w a play."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.bounds import Bound, Custom, LinearSqrt, Observed, Power, SqrtLog, from_json, to_json
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.selectors import BalancedElimination

COEFFICIENTS = st.floats(1e-6, 1e6)
CLOSED_FORMS = st.one_of(
    st.builds(Power, COEFFICIENTS, st.floats(0.01, 1.0)),
    st.builds(SqrtLog, COEFFICIENTS, st.floats(1e-9, 0.99)),
    st.builds(LinearSqrt, st.floats(0, 1e3), COEFFICIENTS),
)


def square(n: int) -> float:
    return 0.25 * n * n


def made_admissible(raw: list[float], width: float) -> list[float]:
    """R(1), R(2), ... from raw(1), raw(2), ... by the definition."""
    bounds = [0.0]
    for value in raw:
        bounds.append(min(bounds[-1] + width, max(bounds[-1], value)))
    return bounds[1:]


def played(bound: Bound, rounds: int, width: float, regrets: list[float] | None = None) -> list[float]:
    """R(1), R(2), ... as a selector with this one learner uses them."""
    selector = BalancedElimination([bound], reward_range=(0.0, width))
    totals = []
    for k in range(rounds):
        selector.credit(selector.choose(), 0.0, None if regrets is None else regrets[k])
        totals.append(selector.standing()[0].mean_bound * (k + 1))
    return totals


@pytest.mark.parametrize(
    ("bound", "n", "value"),
    [
        (Power(2.0), 9, 6.0),
        (Power(0.5, 1.0), 9, 4.5),
        (Power(3.0, 1 / 3), 8, 6.0),
        (SqrtLog(2.0, 0.5), 1, 2.0),  # ln(1/0.5) < 1 counts as 1
        (SqrtLog(2.0, 0.1), 10, 2.0 * math.sqrt(10 * math.log(100))),
        (LinearSqrt(0.25, 2.0), 16, 12.0),
        (Custom(square, "square"), 4, 4.0),
    ],
    ids=lambda value: getattr(value, "name", None) or str(value),
)
def test_raw_is_the_family_s_formula(bound: Power | SqrtLog | LinearSqrt | Custom, n: int, value: float) -> None:
    assert bound.raw(n) == pytest.approx(value, rel=1e-15)


@given(st.one_of(CLOSED_FORMS, st.just(Observed())))
def test_a_bound_survives_json_both_ways_and_equals_what_its_repr_says(bound: Bound) -> None:
    returned = from_json(json.loads(json.dumps(to_json(bound))))
    assert returned == bound
    assert hash(returned) == hash(bound)
    namespace = {kind.__name__: kind for kind in (Power, SqrtLog, LinearSqrt, Observed)}
    assert eval(repr(bound), namespace) == bound


def test_bounds_differ_by_family_and_by_setting() -> None:
    bounds: list[Bound] = [
        Power(1.0),
        Power(1.0, 0.6),
        Power(2.0),
        SqrtLog(1.0, 0.5),
        SqrtLog(1.0, 0.4),
        LinearSqrt(0.5, 1.0),
        LinearSqrt(1.0, 0.5),
        Observed(),
        Custom(square, "square"),
        Custom(square, "another"),
    ]
    assert len(set(bounds)) == len(bounds)
    short: Any = np.float32(1.0)
    assert Power(1) == Power(1.0) == Power(short), "the kind of number makes no difference"
    assert repr(Power(1)) == "Power(coefficient=1.0, exponent=0.5)"


def test_a_custom_bound_comes_back_by_its_name() -> None:
    bound = Custom(square, "square")
    data = json.loads(json.dumps(to_json(bound)))
    assert data == {"bound": "Custom", "name": "square"}
    assert from_json(data, [Custom(square, "other"), bound]) is bound
    with pytest.raises(UnknownName, match=r"^custom bound 'square' is unknown; none is known$"):
        from_json(data)


@given(CLOSED_FORMS, st.floats(1e-3, 1e3))
def test_every_closed_form_is_made_admissible_as_defined(bound: Power | SqrtLog | LinearSqrt, width: float) -> None:
    totals = played(bound, 40, width)
    assert totals == pytest.approx(made_admissible([bound.raw(n) for n in range(1, 41)], width), rel=1e-12)
    check_admissible(totals, width)


@given(st.lists(st.floats(0, 8), min_size=1, max_size=40), st.floats(0.1, 4))
def test_an_observed_bound_sums_its_reports_and_is_made_admissible(regrets: list[float], width: float) -> None:
    totals = played(Observed(), len(regrets), width, regrets)
    sums = [math.fsum(regrets[: k + 1]) for k in range(len(regrets))]
    assert totals == pytest.approx(made_admissible(sums, width), rel=1e-12, abs=1e-300)
    check_admissible(totals, width)


@given(st.lists(st.floats(0, 8), min_size=1, max_size=40), st.floats(0.1, 4))
def test_a_custom_bound_is_made_admissible(increments: list[float], width: float) -> None:
    values = np.cumsum(increments).tolist()
    totals = played(Custom(lambda n: values[n - 1], "table"), len(values), width)
    assert totals == pytest.approx(made_admissible(values, width), rel=1e-12, abs=1e-300)
    check_admissible(totals, width)


def check_admissible(totals: list[float], width: float) -> None:
    """Increments in [0, w] from R(0) = 0, up to the rounding of a mean times its count."""
    slack = 1e-12 * (width + totals[-1])
    steps = np.diff([0.0, *totals])
    assert steps.min() >= -slack
    assert steps.max() <= width + slack


@pytest.mark.parametrize(
    ("values", "n", "message"),
    [
        ([1.0, 2.0, 1.5], 3, "gives 1.5 at n = 3 and 2.0 before it"),
        ([-0.5], 1, "gives -0.5 at n = 1 and 0.0 before it"),
        ([0.5, math.inf], 2, "gives inf at n = 2 and 0.5 before it"),
        ([0.5, 1.0, 1.5, math.nan], 4, "gives nan at n = 4 and 1.5 before it"),
    ],
)
def test_a_custom_bound_that_breaks_its_rule_is_named_with_n(values: list[float], n: int, message: str) -> None:
    selector = BalancedElimination([Custom(lambda n: values[n - 1], "mine")])
    for _ in range(n - 1):
        selector.credit(selector.choose(), 0.5)
    before = selector.standing()
    for _ in range(2):
        with pytest.raises(InvalidArgument) as caught:
            selector.choose()
        assert str(caught.value) == f"bound 'mine' {message}, but must be finite, nonnegative and nondecreasing"
        assert selector.standing() == before or n == 1  # before the first play means are nan, which equals nothing
        assert selector.certificate().rounds == n - 1


def test_a_custom_bound_that_raises_opens_no_play() -> None:
    def broken(n: int) -> float:
        return 0.5 / (3 - n)

    selector = BalancedElimination([Custom(broken, "broken")])
    choices = [selector.choose(), selector.choose()]
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            selector.choose()
    for choice in choices:
        selector.credit(choice, 0.5)
    assert selector.certificate().rounds == selector.certificate().resolved_rounds == 2


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (Power, {"coefficient": 0.0}, "coefficient is 0.0, but must be positive"),
    (Power, {"coefficient": math.nan}, "coefficient is nan, but must be a finite number"),
    (Power, {"coefficient": "1"}, "coefficient is '1', but must be a real number"),
    (Power, {"coefficient": 1.0, "exponent": 1.5}, r"exponent is 1.5, but must lie in \(0, 1\]"),
    (Power, {"coefficient": 1.0, "exponent": 0.0}, r"exponent is 0.0, but must lie in \(0, 1\]"),
    (SqrtLog, {"coefficient": -1.0, "delta": 0.1}, "coefficient is -1.0, but must be positive"),
    (SqrtLog, {"coefficient": 1.0, "delta": 1.0}, r"delta is 1.0, but must lie in \(0, 1\)"),
    (LinearSqrt, {"slope": -0.1, "coefficient": 1.0}, "slope is -0.1, but must not be negative"),
    (LinearSqrt, {"slope": 0.1, "coefficient": 1e155}, r"coefficient is 1e\+155, but must be a finite number"),
    (Custom, {"function": 3, "name": "three"}, "function is 3, but must be a function of n"),
    (Custom, {"function": square, "name": ""}, "name is '', but must be a nonempty string"),
]


@pytest.mark.parametrize(("family", "settings", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_settings_out_of_range_are_refused(family: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        family(**settings)


def test_json_that_describes_no_bound_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"^bound 'Pwoer' is unknown; did you mean Power\?$"):
        from_json({"bound": "Pwoer", "coefficient": 1.0})
    with pytest.raises(
        InvalidArgument, match=r"^bound 'Power' has settings {'slope': 1.0}, but must have those of its class$"
    ):
        from_json({"bound": "Power", "slope": 1.0})
    with pytest.raises(InvalidArgument, match=r"^coefficient is -1, but must be positive"):
        from_json({"bound": "Power", "coefficient": -1})
