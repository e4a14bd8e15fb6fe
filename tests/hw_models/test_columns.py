"""Rows and tables of instructions and buffers behave as sequences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import Buffer, BufferTable
from dsascape.hw_models.simulation.columns import Rows, column

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=4).map(tuple), max_size=6)
BUFFERS = st.lists(st.builds(Buffer, st.sampled_from(["local", "global"]), st.integers(0, 2)), max_size=8)
ENDS = st.none() | st.integers(-7, 7)


@given(ROWS, ENDS, ENDS)
def test_rows_are_returned_as_given(rows: list[tuple[int, ...]], begin: int | None, end: int | None) -> None:
    found = Rows.of(rows)

    assert list(found) == [found[place] for place in range(len(found))] == rows
    assert list(found[begin:end]) == rows[begin:end]
    assert repr(found) == f"Rows.of({rows})"
    assert (found == Rows.of([*rows, ()])) is False


@given(ROWS)
def test_rows_can_be_appended_one_by_one(rows: list[tuple[int, ...]]) -> None:
    found = Rows()
    for row in rows:
        found.append(row)

    assert found == Rows.of(rows)


@given(BUFFERS, ENDS, ENDS)
def test_a_table_of_buffers_stores_distinct_buffers_once(
    buffers: list[Buffer], begin: int | None, end: int | None
) -> None:
    table = BufferTable.of(buffers)

    assert list(table) == [table[number] for number in range(len(table))] == buffers
    assert list(table[begin:end]) == buffers[begin:end]
    assert len(table.distinct) == len(set(buffers))


def test_a_row_that_is_not_there_and_a_number_beyond_32_bits_are_refused() -> None:
    with pytest.raises(IndexError):
        Rows.of([(1,)])[1]
    with pytest.raises(OverflowError):
        column((2**31,))
