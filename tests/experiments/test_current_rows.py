"""Reports and tables show a folder's current rows only; superseded rows are kept with what replaced them."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.question.points import Figure
from dsascape.experiments.results.computed import Computed
from dsascape.experiments.results.folder import read_note
from dsascape.experiments.shell.keep_measured import keep
from tests.experiments.runs import table
from tests.experiments.studies import Reader
from tests.experiments.terminal import Terminal

STUDY = """workloads: [{{model: bert-tiny, batch: 4}}]
hardware: {{base: stcp920, sweep: {{clusters: [{clusters}]}}}}
policies: [unfused]
search: {search}
"""
GRID = "{method: grid}"
SEARCHES = [GRID, "{method: random, budget: 2}", "{method: nsga2, budget: 2}"]


def run(terminal: Terminal, folder: Path, clusters: str, search: str = GRID) -> None:
    study = folder / "study.yaml"
    study.write_text(STUDY.format(clusters=clusters, search=search))
    terminal.out("run", str(study), "--out", str(folder / "out"), "--workers", "1")


def aged(folder: Path) -> None:
    """Make the rows those of other code: under keys that no point has now."""
    with closing(sqlite3.connect(folder / "out" / "results.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET key = 'old' || key, code = 'older', latency_s = latency_s * 1000")
        connection.execute("UPDATE layers SET key = 'old' || key")


def check_shown(folder: Path, points: int) -> pd.DataFrame:
    """Whatever is shown has the current rows, and nothing else; return all rows."""
    rows = table(folder / "out")
    current = rows.loc[rows["state"] == "current"]
    csv = pd.read_csv(folder / "out" / "results.csv")
    page = Reader((folder / "out" / "report.html").read_text())

    assert len(csv) == len(current) == points
    assert sorted(csv["latency_s"]) == sorted(current["latency_s"])
    assert page.data["total"] == points
    assert set(pd.read_csv(folder / "out" / "layers.csv")["clusters"].astype(str)) == set(current["clusters"])
    return rows


@pytest.mark.sampled(2, long=[SEARCHES[2]])
@pytest.mark.parametrize("search", SEARCHES)
def test_rows_of_other_code_are_superseded_by_the_new_ones(search: str, tmp_path: Path, terminal: Terminal) -> None:
    run(terminal, tmp_path, "1, 2", search)
    aged(tmp_path)
    run(terminal, tmp_path, "1, 2", search)

    rows = check_shown(tmp_path, 2)
    old = rows.loc[rows["code"] == "older"]
    assert len(old) == 2
    assert all(old["state"].str.startswith("superseded by"))
    if search == GRID:
        assert {state.removeprefix("superseded by ") for state in old["state"]} == set(rows["key"]) - set(old["key"])


def test_rows_that_an_edited_experiment_does_not_ask_for_are_superseded_by_it(
    tmp_path: Path, terminal: Terminal
) -> None:
    run(terminal, tmp_path, "1, 2")
    run(terminal, tmp_path, "2, 4")

    rows = check_shown(tmp_path, 2)
    states = dict(zip(rows["clusters"], rows["state"], strict=True))
    assert states == {
        "1": "superseded by experiment study, which does not ask for it", "2": "current", "4": "current",
    }  # fmt: skip

    run(terminal, tmp_path, "1, 2")

    rows = check_shown(tmp_path, 2)
    assert Counter(rows["state"] == "current") == {True: 2, False: 1}


def test_a_table_without_the_columns_is_taken_over(tmp_path: Path, terminal: Terminal) -> None:
    run(terminal, tmp_path, "1, 2")
    aged(tmp_path)
    with closing(sqlite3.connect(tmp_path / "out" / "results.sqlite")) as connection, connection:
        connection.execute("DROP INDEX points")
        for column in ("point", "code", "state"):
            connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    (tmp_path / "out" / "experiment.json").unlink()

    terminal.out("report", str(tmp_path / "out"), code=1)  # it says that the copy of the experiment is missing
    assert len(pd.read_csv(tmp_path / "out" / "results.csv")) == 2
    run(terminal, tmp_path, "1, 2")

    assert len(check_shown(tmp_path, 2)) == 4


def test_a_point_measured_again_with_other_code_is_shown_once(tmp_path: Path, terminal: Terminal) -> None:
    row: dict[str, Figure] = {
        "model": "a", "hardware": "host", "policy": "unfused", "batch": 1, "dtype": "fp32", "tuning.threads": "1",
        "latency_s": 1.0, "measured_s": 2.0, "target": "llvm", "device": "cpu", "error": None,
    }  # fmt: skip
    keep(tmp_path, "a" * 32, Computed({**row, "code": "x"}))
    change, written = keep(tmp_path, "b" * 32, Computed({**row, "measured_s": 3.0, "code": "y"}))

    assert (change, written.points, written.planned) == ("added", 1, 1)
    assert read_note(tmp_path).added == ["b" * 32]
    assert pd.read_csv(tmp_path / "results.csv")["measured_s"].tolist() == [3.0]
    assert table(tmp_path)["state"].tolist() == [f"superseded by {'b' * 32}", "current"]
    assert json.loads(terminal.out("report", str(tmp_path), "--json"))["points"] == 1
    assert keep(tmp_path, "b" * 32, Computed({**row, "measured_s": 3.0, "code": "y"}))[0] == "unchanged"
