"""A machine kind of a package goes from its file to a report, though no module of ours names it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsascape.hw_models import load_hardware
from dsascape.hw_models.machine_files import kinds
from dsascape.hw_models.machine_files.kinds import SPECS
from dsascape.scheduler import ScheduleError, kind_of, make_policy
from dsascape.scheduler.kinds.any_kind import AnyKind
from dsascape.scheduler.kinds.table import KINDS, Placing, kind_named
from dsascape.workloads.analysis import Analysis
from tests import packages
from tests.experiments.terminal import Terminal
from tests.scheduler.small import convolution

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tiny_npu"
ROOMS = ("hw_models", "scheduler", "tuner", "experiments")
STUDY = """\
name: tiny
workloads: [squeezenet]
hardware:
  base: {machine}
  sweep: {{macs_per_cycle: [256, 1024]}}
policies: [unfused, fixed-pattern]
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the package of the example; return the file of its machine."""
    source = (EXAMPLE / "tiny_npu.py").read_text(encoding="utf-8")
    offered = {"tiny_npu": "tiny_npu:TINY_NPU"}
    packages.install(tmp_path, monkeypatch, "dsascape.machine_kinds", offered, {"tiny_npu": source})
    _forget()
    yield EXAMPLE / "tiny.yaml"
    _forget()


def _forget() -> None:
    kinds.installed_kind.cache_clear()
    kind_named.cache_clear()


def test_no_module_names_it() -> None:
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]

    assert len(sources) > 400
    assert [path for path in sources if "tiny_npu" in path.read_text(encoding="utf-8")] == []


def test_it_is_simulated_and_replays_its_own_schedule(machine: Path, tmp_path: Path, terminal: Terminal) -> None:
    argv = ("simulate", "squeezenet", "--hardware", str(machine))
    first = terminal.json(*argv, "--policy", "fixed-pattern", "--schedule-out", str(tmp_path / "schedule.json"))
    again = terminal.json(*argv, "--schedule", str(tmp_path / "schedule.json"))

    assert first["utilisation"].keys() == {"engine", "dram"}
    assert first["traffic_bytes"].keys() == {"dram"}
    assert first["latency_s"] == again["latency_s"] > 0
    assert json.loads((tmp_path / "schedule.json").read_text())["machine"]["kind"] == "tiny_npu"


def test_a_sweep_over_it_has_figures_layers_and_a_report(machine: Path, tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.format(machine=machine))
    out = tmp_path / "out"

    terminal.out("run", str(tmp_path / "study.yaml"), "--out", str(out), "--workers", "1")
    terminal.out("report", str(out))

    with sqlite3.connect(out / "results.sqlite") as store:
        rows = store.execute("SELECT policy, macs_per_cycle, latency_s, error FROM runs").fetchall()
    assert len(rows) == 4
    assert {row[3] for row in rows} == {None}
    slow, fast = (sum(row[2] for row in rows if row[1] == str(rate)) for rate in (256, 1024))
    assert 0 < fast < slow
    assert "engine" in (out / "report.html").read_text(encoding="utf-8")


def test_what_it_lacks_is_said_in_one_message(machine: Path, terminal: Terminal) -> None:
    argv = ("simulate", "squeezenet", "--hardware", str(machine), "--policy", "unfused")

    assert "tiny is neither" in terminal.refused(*argv, "--loops", "0")


@pytest.mark.parametrize("name", ["stcp920", "kirin990", "a100"])
def test_values_of_another_kind_are_refused(name: str, machine: Path) -> None:
    """Machines, tunings, cost models and schedules: each is checked where it comes in."""
    own, other = load_hardware(str(machine)), kind_of(load_hardware(name))
    dtype = other.preferred_dtypes[0]
    costs = Placing(hardware=own, parts=1, dtype="int8").costs(Analysis(convolution()))
    schedule = kind_of(own).schedule(make_policy("unfused").plan(costs.analysis.graph, costs), costs, "unfused")

    for wrong in (
        lambda: other.parts(own),
        lambda: other.ways_to_share(kind_of(own).tuning()),
        lambda: other.costs(own, 1, dtype, None, None, costs.analysis),
        lambda: other.read({}, costs),
        lambda: other.write(schedule),
        lambda: other.run(schedule, costs),
    ):
        with pytest.raises(ScheduleError, match=f"whose spec is {other.spec.__name__}; needs a "):
            wrong()


def test_every_built_in_kind_is_seen_as_any_kind() -> None:
    found: dict[str, AnyKind] = {name: kind_named(name) for name in KINDS}

    assert {name: kind.spec for name, kind in found.items()} == SPECS
    assert [name for name, kind in found.items() if kind.has_loops] == ["cpu", "gpu"]
