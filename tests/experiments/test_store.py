"""The store gives back what it was given, takes older tables along, and leaves alone what is none."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from experiments.engines import Row
from experiments.run import run_points
from experiments.store import ALWAYS, ResultStore, StoreError
from tests.experiments.dangers import tiny
from tests.experiments.runs import table


def test_rows_come_back_as_they_were_stored(tmp_path: Path) -> None:
    row: Row = {
        "model": 'a"b',
        "latency_s": 0.1 + 0.2,
        "kernels": 2**53 + 1,
        "odd.path": "1 µs",
        "error": None,
    }
    with ResultStore(tmp_path) as store:
        store.add("k", row)
        (back,) = store.rows(["k"])

    assert {name: back[name] for name in row} == row


def test_a_figure_that_the_first_point_lacks_is_a_number_in_the_second(tmp_path: Path) -> None:
    with ResultStore(tmp_path) as store:
        store.add("a", {"model": "one", "mape": None})
        store.add("b", {"model": "two", "mape": 0.25})

        assert [row["mape"] for row in store.rows(["a", "b"])] == [None, 0.25]


def test_an_older_table_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE runs (key TEXT PRIMARY KEY, model TEXT)")
        connection.execute("INSERT INTO runs VALUES ('old', 'resnet50')")
    run_points([tiny()], tmp_path, 1)

    assert set(ALWAYS) - {"dtype"} <= set(table(tmp_path))
    assert table(tmp_path)["key"].tolist() == ["old", tiny().key]


def test_a_damaged_store_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_bytes(b"something else entirely" * 100)

    with pytest.raises(StoreError, match=r"results\.sqlite"):
        run_points([tiny()], tmp_path, 1)
    assert (tmp_path / "results.sqlite").read_bytes().startswith(b"something else")
