"""Each row of results has the command that simulates its point alone, and that command gives the same figures."""

import shlex
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.question.command_line import simulate_command
from dsascape.experiments.question.points import DesignPoint, Origin, Workload
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.results.frame import read_results
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy
from dsascape.workloads import zoo_entry
from tests.experiments.terminal import Terminal
from tests.tiers import NIGHT

POLICY = """
from dataclasses import dataclass
from typing import ClassVar
from dsascape.fusion.unfused import unfused_plan

@dataclass(frozen=True)
class Mine:
    name: ClassVar[str] = "mine"
    tag: str = ""
    def plan(self, graph, costs):
        return unfused_plan(graph)
"""
STUDY = """# Does a larger buffer help?
workloads:
  - {model: bert-tiny, batch: [4, 6], sequence: 64, dtype: int8}
  - {model: it's a net.onnx, batch: 4, simplify: true}
hardware:
  - base: stcp920
    set: {launch: 10 us}
    sweep: {local_buffer.capacity: [512 KiB, 1280 KiB], tuning.most_tiles: [4, 8]}
policies: [fixed-pattern, {graphturbo: {order: bfs, instruction_scheduling: false}}, {$(mine).py: {tag: "a b;c"}}]
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("it's $HOME")
    (folder / "study.yaml").write_text(STUDY)
    (folder / "it's a net.onnx").write_bytes(zoo_entry("bert-tiny").read_bytes())
    (folder / "$(mine).py").write_text(POLICY)
    assert main(["run", str(folder / "study.yaml"), "--out", str(folder / "out"), "--workers", "1"]) == 0
    return read_results(folder / "out")


FIGURES = ("latency_s", "energy_j", "kernels", "simulated_events", "traffic_bytes.ddr", "critical.ddr", "macs")


def test_the_command_of_every_row_gives_its_figures(rows: pd.DataFrame, terminal: Terminal) -> None:
    """By day of every seventh row: each workload, each policy and each machine comes."""
    assert len(rows) == 3 * 4 * 3
    for _, row in rows.iloc[:: 1 if NIGHT else 7].iterrows():
        program, *argv = shlex.split(row["command"])
        found = terminal.json(*argv)
        assert program == "dsascape"
        for name in ("policy", "hardware", "batch", "dtype"):
            assert found[name] == row[name]
        for name in FIGURES:
            head, _, key = name.partition(".")
            value = found[head].get(key, 0.0) if key else found[head]
            assert value == (0.0 if pd.isna(row[name]) else row[name]), (name, row["command"])


def test_a_point_is_the_base_machine_if_nothing_swept_differs_from_it(rows: pd.DataFrame) -> None:
    """The base has 1.25 MiB, however that is written, and at most eight tiles."""
    base = rows.loc[rows["is_base"] == 1]

    assert set(base["local_buffer.capacity"]) == {"1280 KiB"}
    assert set(base["tuning.most_tiles"]) == {"8"}
    assert len(base) == len(rows) / 4


def test_nothing_in_a_name_is_taken_for_an_option_or_a_command() -> None:
    point = DesignPoint(
        Workload("-v; rm x.onnx", dims=(("-N", 3),)), load_hardware("stcp920"), make_policy("unfused")
    )
    command = simulate_command(point, Origin("-h.yaml", {"a.b": None, "c": True, "d": -1.5}, is_base=False))

    assert shlex.split(command) == [
        "dsascape", "simulate", "./-v; rm x.onnx", "--hardware=-h.yaml", "--policy", "unfused", "--dim=-N=3",
        "--set", "a.b=null", "--set", "c=true", "--set", "d=-1.5",
    ]  # fmt: skip


def test_the_base_machine_of_a_grid_is_found_without_making_its_points(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        "workloads: [bert-tiny]\nhardware: {base: stcp920, sweep: {clusters: [2, 4], launch: [30.8 us, 1 us]}}\n"
        "policies: [unfused]\n"
    )
    grid = read_experiment(path)[1]

    assert grid.machines[0].unchanged == (frozenset({1}), frozenset({0}))
