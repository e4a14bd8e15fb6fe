"""User-defined machines on the command line and in experiments: a base with changes, optional parts switched off."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from tests.experiments.terminal import Terminal

RUN = ("simulate", "bert-tiny", "--batch", "4", "--policy", "unfused")


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """The path of a machine that states what differs from stcp920."""
    path = tmp_path / "mine.yaml"
    path.write_text("base: stcp920\nddr:\n  bandwidth: 30 GB/s  # one quarter\n", encoding="utf-8")
    return str(path)


def figures(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("wall_s", "hardware")}


def test_a_file_with_a_base_is_the_base_with_values_set(terminal: Terminal, mine: str) -> None:
    from_file = terminal.json(*RUN, "--hardware", mine)
    from_set = terminal.json(*RUN, "--hardware", "stcp920", "--set", "ddr.bandwidth=30 GB/s")

    assert from_file["hardware"] == "mine"
    assert figures(from_file) == figures(from_set)


def test_values_are_set_on_top_of_a_file(terminal: Terminal, mine: str) -> None:
    again = terminal.json(*RUN, "--hardware", mine, "--set", "ddr.bandwidth=119.4 GB/s")

    assert figures(again) == figures(terminal.json(*RUN, "--hardware", "stcp920"))


def test_a_part_is_switched_off_with_null(terminal: Terminal) -> None:
    without = terminal.json(*RUN, "--hardware", "stcp920", "--set", "global_buffer=null")

    assert "global_buffer" not in without["traffic_bytes"]
    assert with_values(load_hardware("stcp920", ClusteredDsa), {"global_buffer": None}).global_buffer is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("local_buffer=null", "stcp920: local_buffer: has null; needs a mapping"),
        ("ddr=null", "stcp920: ddr: has null; needs a mapping"),
        ("clusters=null", "stcp920: clusters: has null; needs a whole number"),
        ("global_bufer=null", "there is no global_bufer (did you mean global_buffer?)"),
        ("global_buffer=1 MiB", "global_buffer: is a whole section; needs the path of one value, such as"),
    ],
)
def test_a_required_part_of_a_machine_cannot_be_switched_off(terminal: Terminal, change: str, complaint: str) -> None:
    assert complaint in terminal.refused(*RUN, "--hardware", "stcp920", "--set", change)


def test_an_experiment_sweeps_a_file_with_a_base_and_one_without_global_buffer(
    terminal: Terminal, tmp_path: Path, mine: str
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        f"workloads: [{{model: bert-tiny, batch: 4}}]\npolicies: [unfused]\nhardware:\n"
        f"  - {{base: {Path(mine).name}, sweep: {{ddr.bandwidth: [60 GB/s, 119.4 GB/s]}}}}\n"
        f"  - {{base: {Path(mine).name}, set: {{global_buffer: null}}}}\n"
    )
    terminal.out("run", str(study), "--out", str(tmp_path / "out"), "--workers", "1")

    with closing(sqlite3.connect(tmp_path / "out" / "results.sqlite")) as connection:
        rows = dict(connection.execute('SELECT coalesce("ddr.bandwidth", hardware), latency_s FROM runs'))
    assert list(rows) == ["60 GB/s", "119.4 GB/s", "mine (global_buffer: null)"]
    assert rows["119.4 GB/s"] == terminal.json(*RUN, "--hardware", "stcp920")["latency_s"]


def test_a_presets_file_is_printed_whole_and_runs_when_edited(terminal: Terminal, tmp_path: Path) -> None:
    edited = tmp_path / "edited.yaml"
    text = terminal.out("hardware", "stcp920", "--yaml")
    edited.write_text(text.replace("119.4 GB/s", "30 GB/s"))

    assert "[ByteMLPerf]" in text
    by_set = terminal.json(*RUN, "--hardware", "stcp920", "--set", "ddr.bandwidth=30 GB/s")
    assert figures(terminal.json(*RUN, "--hardware", str(edited))) == figures(by_set)


def test_printing_a_file_needs_a_name_and_is_not_json(terminal: Terminal, mine: str) -> None:
    assert "--yaml prints one machine; name it" in terminal.refused("hardware", "--yaml")
    assert "no such file" in terminal.refused("hardware", "missing.yaml", "--yaml")
    assert terminal.out("hardware", mine, "--yaml").startswith("# mine.yaml with all that it takes over")
    assert "not allowed with" in terminal.refused("hardware", mine, "--yaml", "--reference")
    refused = "hardware: --yaml, --reference and --sources print text"
    assert main_error(terminal, "hardware", mine, "--yaml", "--json").startswith(refused)


def main_error(terminal: Terminal, *argv: str) -> str:
    """The message in the JSON object of a mistake."""
    error: str = json.loads(terminal.out(*argv, code=2))["error"]
    return error
