"""The store returns what was stored, migrates older tables, and rejects files that are not stores."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.engine.run import run_points
from dsascape.experiments.question.points import Row
from dsascape.experiments.results.columns import ALWAYS
from dsascape.experiments.results.frame import read_results
from dsascape.experiments.results.store import ResultStore, StoreError
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


def states(folder: Path) -> dict[str, str]:
    rows = table(folder)
    return dict(zip(rows["key"], rows["state"], strict=True))


def test_a_newer_row_of_a_point_takes_the_place_of_the_older_ones(tmp_path: Path) -> None:
    one = {"model": "a", "policy": "unfused", "clusters": "2"}
    with ResultStore(tmp_path) as store:
        store.add("k1", {**one, "latency_s": 1.0, "wall_s": 0.1, "traffic_bytes.ddr": 10, "code": "x"})
        store.add("k2", {**one, "clusters": "4", "latency_s": 2.0})
        store.add("k3", {**one, "latency_s": 3.0, "wall_s": 0.2, "traffic_bytes.ddr": 11, "code": "y"})

        assert store.superseded("k3") == ["k1"]
    assert states(tmp_path) == {"k1": "superseded by k3", "k2": "current", "k3": "current"}
    assert read_results(tmp_path)["key"].tolist() == ["k2", "k3"]


def test_a_superseded_point_that_is_requested_again_is_current_again(tmp_path: Path) -> None:
    with ResultStore(tmp_path) as store:
        for key, clusters in (("k1", "2"), ("k2", "4"), ("k3", "8")):
            store.add(key, {"model": "a", "clusters": clusters})
        store.make_current(["k1", "k2"], "experiment e")
        assert states(tmp_path) == {"k1": "current", "k2": "current", "k3": "superseded by experiment e"}
        store.make_current(["k3"])

    assert set(states(tmp_path).values()) == {"current"}


@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("PQ"), st.integers(0, 9)), max_size=12),
    is_old=st.booleans(),
)
def test_the_row_stored_last_of_each_point_is_current(rows: list[tuple[str, str, int]], is_old: bool) -> None:
    """Also in a table of an earlier version, which has no column that says so."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if is_old:
            with closing(sqlite3.connect(folder / "results.sqlite")) as connection, connection:
                connection.execute("CREATE TABLE runs (key TEXT PRIMARY KEY, model TEXT, clusters, latency_s REAL)")
                told = [(f"k{number}", *row) for number, row in enumerate(rows)]
                connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", told)
        else:
            with ResultStore(folder) as store:
                for number, (model, clusters, latency) in enumerate(rows):
                    store.add(f"k{number}", {"model": model, "clusters": clusters, "latency_s": float(latency)})
        last = {row[:2]: f"k{number}" for number, row in enumerate(rows)}

        assert set(read_results(folder)["key"]) == {*last.values()}
        with ResultStore(folder) as store:
            assert len(store.keys()) == len(rows)
        assert {key for key, state in states(folder).items() if state == "current"} == {*last.values()}
        assert {state.rstrip("0123456789") for state in states(folder).values()} <= {"current", "superseded by k"}
        assert set(read_results(folder)["key"]) == {*last.values()}


def test_a_damaged_store_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_bytes(b"something else entirely" * 100)

    with pytest.raises(StoreError, match=r"results\.sqlite"):
        run_points([tiny()], tmp_path, 1)
    assert (tmp_path / "results.sqlite").read_bytes().startswith(b"something else")
