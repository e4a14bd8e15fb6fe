"""A trace becomes Chrome trace events that a viewer can show: named, in order, exact in their arguments."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dsascape.hw_models import (
    Buffer,
    ClusteredDsa,
    Compute,
    Instruction,
    Program,
    SimulationResult,
    Transfer,
    load_hardware,
    perfetto_json,
    unrolled,
    with_values,
    write_perfetto,
)
from tests.hw_models.crew import Crew, blocks, work
from tests.hw_models.story import broadcast, launch, load, products, program, simulated

SPEC = with_values(
    load_hardware("stcp920", ClusteredDsa),
    {
        "clock": "1100 MHz",
        "clusters": 2,
        "cores_per_cluster": 3,
        "dma.load_channels": 2,
        "local_buffer.capacity": "24 kB",
    },
)
REQUIRED = {
    "M": {"name", "ph", "pid", "tid", "ts", "args"},
    "X": {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "cat", "ph", "pid", "tid", "ts", "args"},
}


def tiles(count: int) -> Program:
    """Return ``count`` tiles that are loaded, broadcast, multiplied, passed through a function and stored."""
    instructions: list[Instruction] = [launch("go")]
    buffers: list[Buffer] = []
    for tile in range(count):
        first, space = len(instructions), len(buffers)
        buffers += [Buffer("global_buffer", 9_999, label=f"x{tile}"), Buffer("local_buffer", 9_999, 3)]
        size = 9_000 + 333 * tile
        instructions += [
            load(f"load {tile}", size, after=(0,), allocates=(space,)),
            broadcast(f"spread {tile}", size, 3, after=(first,), allocates=(space + 1,), frees=(space,)),
            Instruction(
                unit="matrix", label=f"multiply {tile}", after=(first + 1,),
                payload=products(100, 90, 77, traffic={"local_buffer": 20_000}),
            ),
            Instruction(
                unit="vector", label=f"activate {tile}", after=(first + 2,),
                payload=Compute(dtype="fp16", simple=5_000, special=1_000, traffic=(("local_buffer", 9_001),)),
            ),
            Instruction(
                unit="dma_store", label=f"store {tile}", after=(first + 3,), frees=(space + 1,),
                payload=Transfer(source="global_buffer", destination="ddr", size_bytes=size),
            ),
        ]  # fmt: skip
    return program(*instructions, buffers=tuple(buffers), spec=SPEC, clusters=2, cores=3)


PROGRAMS = {"lockstep": tiles(6), "unrolled": unrolled(tiles(6))}
RESULTS = {name: simulated(made, SPEC) for name, made in PROGRAMS.items()}


def events(result: SimulationResult, phase: str) -> list[dict[str, Any]]:
    return [event for event in perfetto_json(result, "mine")["traceEvents"] if event["ph"] == phase]


def instructions(result: SimulationResult) -> list[dict[str, Any]]:
    return [event for event in events(result, "X") if event["cat"] != "critical"]


def named(result: SimulationResult, kind: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events(result, "M") if e["name"] == kind}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS.keys())
class TestEveryRun:
    def test_every_event_has_what_its_phase_requires(self, result: SimulationResult) -> None:
        for event in perfetto_json(result, "mine")["traceEvents"]:
            assert set(event) == REQUIRED[event["ph"]]
            assert isinstance(event["pid"], int)
            assert isinstance(event["tid"], int)
            assert event["ts"] >= 0
            assert event.get("dur", 0) >= 0

    def test_every_thread_and_process_in_use_has_a_name_and_a_place(self, result: SimulationResult) -> None:
        threads, processes = named(result, "thread_name"), named(result, "process_name")
        sorts = {"thread_sort_index", "process_sort_index"}
        order = [e["args"]["sort_index"] for e in events(result, "M") if e["name"] in sorts]

        assert {(e["pid"], e["tid"]) for e in events(result, "X")} == set(threads)
        assert {(e["pid"], 0) for e in events(result, "X") + events(result, "C")} == set(processes)
        assert len(order) == len(threads) + len(processes)
        assert len(set(threads.values())) == len(threads)

    def test_nothing_overlaps_within_a_thread(self, result: SimulationResult) -> None:
        by_thread = defaultdict(list)
        for event in events(result, "X"):
            start = round(event["ts"] * 1000)
            by_thread[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))

        for spans in by_thread.values():
            assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))

    def test_times_are_those_of_the_trace(self, result: SimulationResult) -> None:
        trace = result.trace
        for event in instructions(result):
            args = event["args"]
            position = args["position"]
            assert args["start_ps"] == trace.start_ps[position]
            assert args["start_ps"] + args["duration_ps"] == trace.end_ps[position]
            assert event["ts"] == pytest.approx(trace.start_ps[position] / 1e6, abs=0.001)
            assert event["ts"] + event["dur"] == pytest.approx(trace.end_ps[position] / 1e6, abs=0.001)

    def test_durations_sum_to_the_busy_times(self, result: SimulationResult) -> None:
        busy_ps: dict[str, int] = defaultdict(int)
        for event in instructions(result):
            unit = result.trace.instructions[event["args"]["position"]].unit
            busy_ps[unit.partition("[")[0]] += event["args"]["duration_ps"] * result.trace.members[unit]

        assert busy_ps == result.busy_ps

    def test_every_instruction_is_one_event(self, result: SimulationResult) -> None:
        positions = [event["args"]["position"] for event in instructions(result)]

        assert positions == list(range(len(result.trace.instructions)))

    def test_the_critical_path_is_a_thread_without_gaps(self, result: SimulationResult) -> None:
        path = [event for event in events(result, "X") if event["cat"] == "critical"]

        assert path[0]["ts"] == 0
        for one, other in pairwise(path):
            assert one["ts"] + one["dur"] == pytest.approx(other["ts"])
        assert path[-1]["ts"] + path[-1]["dur"] == result.makespan_ps // 1000 / 1000
        assert {event["name"] for event in path} == set(result.critical_ps)

    def test_counters_reach_the_peaks(self, result: SimulationResult) -> None:
        peaks: dict[str, int] = defaultdict(int)
        for event in events(result, "C"):
            memory = event["name"].partition("[")[0]
            peaks[memory] = max(peaks[memory], event["args"]["bytes"])

        assert peaks == {name: peak for name, peak in result.peak_occupancy_bytes.items() if peak}

    def test_the_file_reads_back(self, result: SimulationResult, tmp_path: Path) -> None:
        file = tmp_path / "trace.json"
        write_perfetto(result, file, "mine")

        assert json.loads(file.read_text(encoding="utf-8")) == perfetto_json(result, "mine")
        assert perfetto_json(result.trace, "mine") == perfetto_json(result, "mine")


def test_units_stand_where_they_exist_and_say_how_many_they_are() -> None:
    assert named(RESULTS["lockstep"], "process_name") == {
        (1, 0): "mine: critical path",
        (2, 0): "mine: memories",
        (3, 0): "mine: units of a cluster",
        (4, 0): "mine: units of a core",
    }
    assert named(RESULTS["lockstep"], "thread_name") == {
        (1, 1): "paced by",
        (3, 1): "launch, 2 alike",
        (3, 2): "dma_load, channel 1, 2 alike",
        (3, 3): "dma_load, channel 2, 2 alike",
        (3, 4): "broadcast, 2 alike",
        (4, 5): "matrix, 6 alike",
        (4, 6): "vector, 6 alike",
        (3, 7): "dma_store, 2 alike",
    }


def test_members_of_an_unrolled_program_have_their_own_threads() -> None:
    threads = named(RESULTS["unrolled"], "thread_name")

    assert {place[0] for place, name in threads.items() if name.startswith("matrix[")} == {4}
    assert {place[0] for place, name in threads.items() if name.startswith("launch[")} == {3}
    assert "matrix[1.2]" in threads.values()


def test_an_event_says_what_was_done_and_why_then() -> None:
    by_name = {event["name"]: event for event in instructions(RESULTS["lockstep"])}
    trace = RESULTS["lockstep"].trace

    assert by_name["load 0"]["args"] == {
        "position": 1,
        "source": "ddr",
        "destination": "global_buffer",
        "size_bytes": 9_000,
        "fan_out": 1,
        "released_by": "go",
        "released_by_position": 0,
        "paced_by": trace.limits[1],
        "issued_ps": SPEC.launch_ps,
        "start_ps": SPEC.launch_ps,
        "duration_ps": trace.end_ps[1] - SPEC.launch_ps,
        "startup_ps": 1_000_000,
    }
    assert by_name["go"]["args"]["released_by"] == "the start"
    assert by_name["multiply 0"]["args"]["shape"] == "1 x 100 x 90 x 77"
    assert by_name["multiply 0"]["args"]["macs"] == 693_000
    assert by_name["activate 0"]["args"]["special"] == 1_000


def test_concurrent_kernels_have_separate_threads_and_the_critical_path_no_gaps() -> None:
    result = Crew().run(blocks("first", 5, work(1_000_000)), blocks("second", 4, work(1_000_000)))

    assert [(e["tid"], e["ts"], e["dur"]) for e in instructions(result)] == [(1, 0, 2), (2, 1, 2)]
    assert [(e["args"]["label"], e["ts"], e["dur"]) for e in events(result, "X") if e["cat"] == "critical"] == [
        ("first", 0, 1),
        ("second", 1, 2),
    ]
