"""Every column that a run stores has a unit and a meaning, on the page made of the code too; Parquet beside CSV."""

import importlib.util
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.question.pins_schema import pins_page
from dsascape.experiments.results.column_meanings import column_of, results_columns, results_page
from dsascape.experiments.results.columns import ALWAYS, OF_FIGURES, OF_KERNELS, OF_LAYERS, OF_MEASUREMENT, OF_ORIGIN
from dsascape.experiments.results.parquet import PARQUET, write_parquet
from dsascape.experiments.shell.cli import main
from tests.experiments.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("table", "columns"),
    [("runs", {**ALWAYS, **OF_ORIGIN, **OF_MEASUREMENT}), ("layers", OF_LAYERS), ("kernels", OF_KERNELS)],
)
def test_every_column_that_a_table_always_has_is_described(table: str, columns: dict[str, str]) -> None:
    assert [name for name in columns if column_of(table, name) is None] == []
    assert [name for name in columns if name not in {each["name"] for each in results_columns()[table]}] == []


def test_every_kind_of_figure_by_memory_or_unit_is_described() -> None:
    assert [beginning for beginning in OF_FIGURES if column_of("runs", f"{beginning}x") is None] == []


def test_a_figure_with_a_unit_in_its_name_has_that_unit() -> None:
    units = {"_s": "s", "_j": "J", "_mm2": "mm2", "_bytes_per_s": "B/s", "throughput_per_s": "images/s"}
    for table in results_columns().values():
        for each in table:
            ends = [unit for end, unit in units.items() if each["name"].endswith(end)]
            assert not ends or each["unit"] in {*ends, "1/s"}, each


def test_the_page_is_the_one_that_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["schema", "results", "--reference"])

    assert capsys.readouterr().out == results_page()
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results_page()


def test_the_guide_to_pins_has_the_table_that_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["schema", "pins", "--reference"])

    assert capsys.readouterr().out == pins_page()
    assert pins_page() in (ROOT / "docs" / "pins.md").read_text(encoding="utf-8")


class TestARun:
    @pytest.fixture
    def folder(self, terminal: Terminal, tmp_path: Path) -> Path:
        pins = {"layers": {"op:ConvTranspose": {"split": 1}}}
        (tmp_path / "pins.json").write_text(json.dumps(pins))
        (tmp_path / "study.yaml").write_text(
            "workloads: [{model: dcgan, batch: [1, 2]}]\nhardware: {base: h100, sweep: {launch: [3 us, 4 us]}}\n"
            "policies: [unfused]\npins: pins.json\n"
        )
        terminal.json("run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "out"), "--workers", "1")
        return tmp_path / "out"

    def test_has_no_column_without_a_meaning_but_what_it_sweeps(self, folder: Path) -> None:
        with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
            for table, swept in (("runs", ["launch"]), ("layers", [])):
                names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                assert [name for name in names if column_of(table, name) is None] == swept
        points = pd.read_csv(folder / "results.csv")
        assert set(points["pins"]) == {"pins.json"}
        assert all("--pins" in command for command in points["command"])

    def test_writes_parquet_with_types_where_pyarrow_is_installed(self, folder: Path) -> None:
        assert (folder / PARQUET).exists() == (importlib.util.find_spec("pyarrow") is not None)
        pytest.importorskip("pyarrow")
        table, text = pd.read_parquet(folder / PARQUET), pd.read_csv(folder / "results.csv")

        assert list(table) == list(text)
        assert table["latency_s"].tolist() == text["latency_s"].tolist()
        assert [str(table[name].dtype) for name in ("batch", "latency_s", "model", "launch")] == [
            "Int64", "Float64", "string", "string",
        ]  # fmt: skip


def test_parquet_keeps_missing_values_missing_and_whole_numbers_whole(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    columns = {"key": ["a", "b"], "batch": [1.0, None], "error": [None, "too large"], "latency_s": [2, None]}
    frame = pd.DataFrame(columns)
    write_parquet(frame, tmp_path / PARQUET)
    back = pd.read_parquet(tmp_path / PARQUET)

    assert list(back) == ["batch", "error", "latency_s"]
    assert back["batch"].tolist()[0] == 1
    assert back.isna().to_numpy().tolist() == [[False, True, False], [True, False, True]]
