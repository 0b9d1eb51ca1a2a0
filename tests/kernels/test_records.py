"""Rows of state as objects, as records of one array and as columns: the same contents in all three shapes."""

from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.kernels.records import (
    as_records,
    check_columns,
    check_shapes,
    derived,
    load_columns,
    load_records,
    load_state,
    state_columns,
    state_records,
)
from equipoise.selectors._core.evidence import Account, Pool


@dataclass(slots=True)
class Row:
    number: "int"
    share: "float"
    active: "bool" = True


class Whole(NamedTuple):
    rows: list[Row]


class Around(NamedTuple):
    """A state with another one inside."""

    inner: Whole
    own: list[Row]


WHOLE = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.builds(Row, WHOLE, st.floats(), st.booleans()), min_size=1, max_size=5)


def contents(rows: list[Any]) -> list[str]:
    """As text, in which nan is equal to itself and 0.0 differs from -0.0; types show too."""
    return [repr(astuple(row)) for row in rows]


def blank(rows: list[Any]) -> list[Any]:
    return [Row(0, 0.0, False) for _ in rows]


@given(ROWS)
def test_records_go_there_and_back(rows: list[Any]) -> None:
    others, records = blank(rows), as_records(rows)
    assert records.dtype.names == ("number", "share", "active")
    load_records(others, records)
    assert contents(others) == contents(rows)


@given(ROWS)
def test_columns_go_there_and_back(rows: list[Any]) -> None:
    others, columns = blank(rows), state_columns(Whole(rows))
    assert {name: (array.dtype.str, array.shape) for name, array in columns.items()} == {
        "rows.number": ("<i8", (len(rows),)),
        "rows.share": ("<f8", (len(rows),)),
        "rows.active": ("|b1", (len(rows),)),
    }
    check_columns(Whole(others), columns)
    load_columns(Whole(others), columns)
    assert contents(others) == contents(rows)


@given(ROWS)
def test_copies_share_nothing(rows: list[Any]) -> None:
    before = contents(rows)
    for array in [as_records(rows), *state_columns(Whole(rows)).values()]:
        array[...] = np.zeros(len(rows), array.dtype)
    assert contents(rows) == before


@given(ROWS)
def test_code_over_rows_runs_on_objects_and_on_records(rows: list[Any]) -> None:
    def settle(rows: Any) -> None:
        for i in range(len(rows)):
            row = rows[i]
            row.active = row.share > 0.5
            row.share = row.share * 0.5

    records = as_records(rows).view(np.recarray)
    settle(rows)
    settle(records)
    others = blank(rows)
    load_records(others, np.asarray(records))
    assert contents(others) == contents(rows)


@given(ROWS, ROWS)
def test_a_nested_state_goes_there_and_back(inside: list[Any], own: list[Any]) -> None:
    state = Around(Whole(inside), own)
    copy, other = (Around(Whole(blank(inside)), blank(own)) for _ in range(2))
    records, columns = state_records(state), state_columns(state)
    assert list(columns) == [
        f"{path}.{name}" for path in ("inner.rows", "own") for name in ("number", "share", "active")
    ]
    assert type(records) is Around and type(records.inner) is Whole
    load_state(copy, records)
    check_columns(other, columns)
    load_columns(other, columns)
    for made in (copy, other):
        assert contents(made.inner.rows) == contents(inside) and contents(made.own) == contents(own)


@dataclass(slots=True)
class Doubled:
    number: "float"
    double: "float" = derived(0.0)  # noqa: RUF009  a field


def test_a_derived_field_is_copied_to_compiled_code_but_not_saved() -> None:
    rows, others = [Doubled(1.0, 2.0), Doubled(2.0, 4.0)], [Doubled(0.0, 9.0), Doubled(0.0, 9.0)]
    columns = state_columns(Whole(rows))  # type: ignore[arg-type]
    assert list(columns) == ["rows.number"]
    check_columns(Whole(others), columns)  # type: ignore[arg-type]
    load_columns(Whole(others), columns)  # type: ignore[arg-type]
    assert contents(others) == ["(1.0, 0.0)", "(2.0, 0.0)"]
    load_records(others, as_records(rows))
    assert contents(others) == contents(rows)
    assert rows[0] == Doubled(1.0, 3.0)


@pytest.mark.parametrize("row", [Account(0, 1.0, 0.5), Pool()])
def test_the_books_of_selectors_are_such_rows(row: Any) -> None:
    other = Account(3, 2.0, 2.0) if isinstance(row, Account) else Pool(7, 7.0)
    load_records([other], as_records([row]))
    assert contents([other]) == contents([row])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"rows.share": None}, "state rows.share has shape None, but must have (2,)"),
        ({"rows.active": np.zeros(3, bool)}, "state rows.active has shape (3,), but must have (2,)"),
        ({"rows.number": np.zeros((2, 1), int)}, "state rows.number has shape (2, 1), but must have (2,)"),
    ],
)
def test_columns_of_another_shape_are_refused(columns: dict[str, Any], message: str) -> None:
    rows = [Row(1, 1.0), Row(2, 2.0)]
    state = {name: array for name, array in (state_columns(Whole(rows)) | columns).items() if array is not None}
    with pytest.raises(InvalidArgument) as caught:
        check_columns(Whole(rows), state)
    assert str(caught.value) == message


def test_shapes_are_checked_by_name() -> None:
    check_shapes({"a": np.zeros(2), "b": np.zeros(())}, {"a": (2,)})
    with pytest.raises(InvalidArgument, match=r"^state b has shape \(\), but must have \(1,\)$"):
        check_shapes({"a": np.zeros(2), "b": np.zeros(())}, {"a": (2,), "b": (1,)})
