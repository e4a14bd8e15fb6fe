"""What a machine does with a program, worked out by hand.

The machine of these stories moves one byte per picosecond between DDR and the global buffer and from there to
each local buffer, and its clock ticks every picosecond, so that sizes are times.
"""

import importlib.resources
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw_models import (
    AnyInstruction,
    Buffer,
    ClusteredDsa,
    HardwareError,
    Launch,
    MatrixCompute,
    Program,
    ProgramError,
    SimulationError,
    SimulationResult,
    Transfer,
    VectorCompute,
    compute_ps,
    load_hardware,
    simulate,
    unrolled,
    with_values,
)
from hw_models.clustered_dsa import RESERVED_NAMES
from hw_models.machine import ceil_ps, dsa_machine

SPEC = with_values(
    load_hardware("stcp920"),
    {
        "name": "story",
        "clock": "1000 GHz",
        "clusters": 2,
        "cores_per_cluster": 2,
        "ddr.bandwidth": "1 TB/s",
        "ddr.efficiency": 1.0,
        "dma.load.bandwidth": "1 TB/s",
        "dma.load.startup": "0 ps",
        "dma.store.bandwidth": "1 TB/s",
        "dma.store.startup": "0 ps",
        "on_chip_path.bandwidth": "1 TB/s",
        "on_chip_path.startup": "0 ps",
        "global_buffer.bandwidth": "100 TB/s",
        "global_buffer.capacity": "1000 B",
        "local_buffer.bandwidth": "100 TB/s",
        "local_buffer.capacity": "100 B",
        "launch": "7 ps",
    },
)
LANES = 64
PRESET = (importlib.resources.files("hw_models") / "presets/stcp920.yaml").read_text(encoding="utf-8")


def run(
    *instructions: AnyInstruction, buffers: tuple[Buffer, ...] = (), spec: ClusteredDsa = SPEC,
    clusters: int = 1, cores: int = 1,
) -> SimulationResult:  # fmt: skip
    return simulate(Program(instructions, buffers, clusters, cores, dsa_machine(spec).scopes), spec)


def timeline(result: SimulationResult) -> list[tuple[str, int, int]]:
    trace = result.trace
    return [(i.label, trace.start_ps[p], trace.end_ps[p]) for p, i in enumerate(trace.instructions)]


def load(
    label: str, size_bytes: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = ()
) -> Transfer:
    return Transfer(
        unit="dma_load", label=label, source="ddr", destination="global_buffer", size_bytes=size_bytes,
        after=after, allocates=allocates,
    )  # fmt: skip


def store(label: str, size_bytes: int) -> Transfer:
    return Transfer(
        unit="dma_store", label=label, source="global_buffer", destination="ddr", size_bytes=size_bytes
    )


def fetch(
    label: str, size_bytes: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = ()
) -> Transfer:
    return Transfer(
        unit="path_load", label=label, source="global_buffer", destination="local_buffer",
        size_bytes=size_bytes, after=after, allocates=allocates,
    )  # fmt: skip


def add(
    label: str, time_ps: int, after: tuple[int, ...] = (), frees: tuple[int, ...] = (), local_bytes: int = 0
) -> VectorCompute:
    return VectorCompute(
        unit="vector", label=label, dtype="fp16", simple=LANES * time_ps, local_bytes=local_bytes,
        after=after, frees=frees,
    )  # fmt: skip


def product(label: str, rows: int, columns: int, depth: int, count: int = 1) -> MatrixCompute:
    return MatrixCompute(
        unit="matrix", label=label, dtype="fp16", rows=rows, columns=columns, depth=depth, count=count
    )


class TestSharing:
    def test_two_transfers_share_ddr_and_the_survivor_has_it_alone(self) -> None:
        result = run(load("in", 100), store("out", 50))

        assert timeline(result) == [("in", 0, 150), ("out", 0, 100)]
        assert result.trace.limits == ["ddr", "ddr"]
        assert result.critical_ps == {"ddr": 150}
        assert result.utilisation["ddr"] == 1

    def test_two_clusters_share_ddr(self) -> None:
        assert timeline(run(load("in", 100), clusters=2)) == [("in", 0, 200)]

    def test_a_transfer_alone_is_paced_by_its_channel(self) -> None:
        fast_ddr = with_values(SPEC, {"ddr.bandwidth": "2 TB/s"})

        result = run(load("in", 100), clusters=2, spec=fast_ddr)

        assert timeline(result) == [("in", 0, 100)]
        assert result.trace.limits == ["dma_load"]
        assert result.bottleneck == "dma_load"

    def test_a_unit_that_wants_more_than_its_memory_has_is_paced_by_the_memory(self) -> None:
        slow_buffer = with_values(SPEC, {"local_buffer.bandwidth": "1 TB/s"})

        result = run(add("greedy", 10, local_bytes=40), add("modest", 10, local_bytes=5), spec=slow_buffer)

        assert timeline(result) == [("greedy", 0, 40), ("modest", 40, 50)]
        assert result.trace.limits == ["local_buffer", "vector"]

    def test_bytes_take_time_even_where_nothing_is_computed(self) -> None:
        slow_buffer = with_values(SPEC, {"local_buffer.bandwidth": "1 TB/s"})

        result = run(add("copy", 0, local_bytes=40), spec=slow_buffer)

        assert timeline(result) == [("copy", 0, 40)]
        assert result.traffic_bytes["local_buffer"] == 40
        assert result.trace.limits == ["local_buffer"]

    def test_shared_time_is_rounded_once_at_its_end(self) -> None:
        spec = with_values(SPEC, {"dma.load_channels": 2, "ddr.bandwidth": "900 GB/s"})

        # Two clusters with two loads each share DDR: 4 B at 0.9 B/ps.
        assert timeline(run(load("a", 1), load("b", 1), spec=spec, clusters=2)) == [("a", 0, 5), ("b", 0, 5)]

    def test_a_second_channel_takes_the_next_transfer_at_once(self) -> None:
        spec = with_values(SPEC, {"dma.load_channels": 2, "ddr.bandwidth": "4 TB/s"})

        result = run(load("a", 10), load("b", 20), load("c", 10), spec=spec)

        assert timeline(result) == [("a", 0, 10), ("b", 0, 20), ("c", 10, 20)]

    def test_each_burst_starts_the_channel_up(self) -> None:
        spec = with_values(SPEC, {"dma.load.startup": "5 ps"})
        three = Transfer(
            unit="dma_load", label="three", source="ddr", destination="global_buffer", size_bytes=10, bursts=3
        )

        result = run(three, spec=spec)

        assert timeline(result) == [("three", 0, 25)]
        assert result.critical_ps == {"dma_load-startup": 15, "dma_load": 10}


class TestWaiting:
    def test_an_instruction_waits_for_what_it_needs_and_for_its_unit(self) -> None:
        result = run(
            Launch(unit="launch", label="go"),
            load("x", 20, after=(0,)),
            load("w", 10, after=(0,)),
            add("add", 5, after=(1,)),
        )

        assert timeline(result) == [("go", 0, 7), ("x", 7, 27), ("w", 27, 37), ("add", 27, 32)]
        assert result.trace.released_by == [-1, 0, 1, 1]
        assert result.waited_ps["vector"] == {"dma_load": 27}
        assert result.trace.critical_path() == [0, 1, 2]
        assert result.critical_ps == {"launch": 7, "dma_load": 30}

    def test_a_load_waits_for_space_and_names_who_freed_it(self) -> None:
        buffers = Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")

        result = run(
            fetch("load a", 60, allocates=(0,)),
            add("use a", 30, after=(0,), frees=(0,)),
            fetch("load b", 60, allocates=(1,)),
            buffers=buffers,
        )

        assert timeline(result) == [("load a", 0, 60), ("use a", 60, 90), ("load b", 90, 150)]
        assert result.trace.released_by[2] == 1
        assert result.waited_ps["path_load"] == {"space": 30}
        assert result.peak_occupancy_bytes["local_buffer"] == 60
        assert result.trace.occupancy_bytes == {"local_buffer": [(0, 60)]}

    def test_space_is_served_in_order_though_a_later_request_would_fit(self) -> None:
        buffers = tuple(Buffer("local_buffer", size, label=f"{size}") for size in (60, 70, 20))

        result = run(
            fetch("load 60", 60, allocates=(0,)),
            add("use 60", 10, after=(0,), frees=(0,)),
            fetch("load 70", 70, allocates=(1,)),
            replace(product("take 20", 64, 32, 1), after=(0,), allocates=(2,)),
            buffers=buffers,
        )

        assert timeline(result)[2:] == [("load 70", 70, 140), ("take 20", 70, 71)]
        assert result.waited_ps["matrix"] == {"path_load": 60, "space": 10}

    def test_wishes_for_space_of_one_instant_are_granted_in_the_order_of_the_program(self) -> None:
        spread = Launch(unit="launch", label="spread", after=(0,), allocates=(0,), frees=(0,))
        own = replace(product("own", 64, 32, 5), after=(0,), allocates=(1,), frees=(1,))
        buffers = Buffer("local_buffer", 60, fan_out=2, label="all"), Buffer("local_buffer", 60, label="mine")

        for first, second, ends in ((spread, own, (17, 22)), (own, spread, (15, 22))):
            program = Program((fetch("load", 10), first, second), buffers, 1, 2, dsa_machine(SPEC).scopes)
            written_out = timeline(simulate(unrolled(program), SPEC))

            assert [end for _, _, end in timeline(simulate(program, SPEC))][1:] == list(ends)
            assert {(label, end) for label, _, end in written_out[2:]} == {
                (first.label, ends[0]),
                (second.label, ends[1]),
            }

    def test_an_instant_is_over_when_nothing_more_happens_in_it(self) -> None:
        result = run(
            fetch("load", 10),
            add("nothing", 0, after=(0,)),
            replace(add("nothing again", 0, after=(1,)), unit="vector_core"),
            replace(product("first", 64, 32, 5), after=(2,), allocates=(0,), frees=(0,)),
            Launch(unit="launch", label="second", after=(0,), allocates=(1,), frees=(1,)),
            buffers=(Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")),
        )

        assert timeline(result)[-2:] == [("first", 10, 15), ("second", 15, 22)]

    def test_double_buffering_overlaps_loading_and_computing(self) -> None:
        buffers = tuple(Buffer("local_buffer", 50, label=f"tile {n}") for n in range(3))
        one_after_the_other = tuple(Buffer("local_buffer", 60, label=f"tile {n}") for n in range(3))
        tiles = [
            step
            for n in range(3)
            for step in (
                fetch(f"load {n}", 50, allocates=(n,)),
                add(f"use {n}", 50, after=(2 * n,), frees=(n,)),
            )
        ]

        assert timeline(run(*tiles, buffers=buffers)) == [
            ("load 0", 0, 50),
            ("use 0", 50, 100),
            ("load 1", 50, 100),
            ("use 1", 100, 150),
            ("load 2", 100, 150),
            ("use 2", 150, 200),
        ]
        assert run(*tiles, buffers=one_after_the_other).makespan_ps == 300

    def test_space_returns_when_the_last_user_has_ended(self) -> None:
        buffers = Buffer("local_buffer", 80, label="shared"), Buffer("local_buffer", 80, label="next")

        result = run(
            fetch("load", 10, allocates=(0,)),
            add("first use", 20, after=(0,), frees=(0,)),
            replace(product("second use", 64, 32, 70), after=(0,), frees=(0,)),
            fetch("load next", 10, allocates=(1,)),
            buffers=buffers,
        )

        assert timeline(result)[1:] == [("first use", 10, 30), ("second use", 10, 80), ("load next", 80, 90)]

    def test_nothing_to_run_takes_no_time(self) -> None:
        result = run()

        assert result.makespan_ps == 0
        assert result.bottleneck == "nothing"
        assert set(result.utilisation.values()) == {0.0}


class TestRefusals:
    def test_a_buffer_larger_than_its_memory_is_refused_by_name(self) -> None:
        with pytest.raises(SimulationError, match="buffer 'huge' needs 101 B, a local_buffer holds 100 B"):
            run(fetch("load", 1, allocates=(0,)), buffers=(Buffer("local_buffer", 101, label="huge"),))

    def test_a_deadlock_names_who_waits_for_what(self) -> None:
        buffers = Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")

        with pytest.raises(SimulationError) as refused:
            run(
                fetch("load a", 60, allocates=(0,)),
                fetch("load b", 60, allocates=(1,)),
                add("use both", 30, after=(0, 1), frees=(0, 1)),
                buffers=buffers,
            )

        assert str(refused.value) == (
            "the machine can no longer move: path_load waits with 'load b' for 60 B of local_buffer,"
            " where 40 B is free beside 'a' (held until 'use both' ended);"
            " vector waits with 'use both' for 'load b'"
        )

    def test_a_deadlock_shows_space_that_nobody_frees(self) -> None:
        buffers = Buffer("local_buffer", 60, label="a"), Buffer("local_buffer", 60, label="b")

        with pytest.raises(SimulationError, match=r"beside 'a' \(held for good\)$"):
            run(fetch("load a", 1, allocates=(0,)), fetch("load b", 1, allocates=(1,)), buffers=buffers)

    def test_space_freed_before_it_is_taken_is_refused(self) -> None:
        buffers = (Buffer("local_buffer", 60, label="a"),)

        with pytest.raises(ProgramError, match="early frees buffer 'a' before it has its space"):
            run(
                load("slow", 50),
                fetch("load a", 60, after=(0,), allocates=(0,)),
                add("early", 1, frees=(0,)),
                buffers=buffers,
            )

    @pytest.mark.parametrize(
        ("instruction", "complaint"),
        [
            (Launch(unit="dma_load", label="go"), "go: dma_load moves data only, not Launch"),
            (Launch(unit="vector", label="go"), "go: vector computes only"),
            (replace(add("add", 1), unit="launch"), "add: launch starts kernels only, not VectorCompute"),
            (replace(add("add", 1), unit="matrix"), "add: matrix unit 'matrix' does products only"),
        ],
    )
    def test_work_of_another_kind_of_unit_is_refused(
        self, instruction: AnyInstruction, complaint: str
    ) -> None:
        with pytest.raises(ProgramError, match=complaint):
            run(instruction)

    def test_a_dtype_that_the_unit_lacks_is_refused(self) -> None:
        with pytest.raises(HardwareError, match="story: unit 'vector' computes fp16, int8, not fp32"):
            run(VectorCompute(unit="vector", label="add", dtype="fp32", simple=1))

    def test_a_program_of_another_machine_is_refused(self) -> None:
        lonely = with_values(SPEC, {"on_chip_path.broadcast": False})
        everywhere = Transfer(
            unit="broadcast", label="all", source="global_buffer", destination="local_buffer", size_bytes=1
        )
        scopes = dsa_machine(SPEC).scopes

        with pytest.raises(ProgramError, match="all: story has no unit 'broadcast'"):
            simulate(Program((everywhere,), (), 1, 1, scopes), lonely)
        with pytest.raises(ProgramError, match=r"on 2 clusters of 3 cores, story has 2 of 2"):
            run(load("in", 1), clusters=2, cores=3)
        with pytest.raises(ProgramError, match="story has dma_load once per cluster, the program per core"):
            simulate(Program((load("in", 1),), (), 1, 1, {"dma_load": "core"}), SPEC)
        with pytest.raises(ProgramError, match="buffer 'x': story has no memory 'l3'"):
            run(load("in", 1), buffers=(Buffer("l3", 1, label="x"),))
        with pytest.raises(ProgramError, match="in: story has no memory 'l3'"):
            run(Transfer(unit="dma_load", label="in", source="l3", destination="ddr", size_bytes=1))


class TestBroadcast:
    def test_one_read_fills_all_local_buffers(self) -> None:
        everywhere = Transfer(
            unit="broadcast", label="all", source="global_buffer", destination="local_buffer", size_bytes=40,
            fan_out=2, allocates=(0,),
        )  # fmt: skip
        each = fetch("each", 40, allocates=(0,))
        in_one_go = (Buffer("local_buffer", 40, fan_out=2, label="w"),)

        once = run(everywhere, buffers=in_one_go, clusters=2, cores=2)
        one_by_one = run(each, buffers=(Buffer("local_buffer", 40, label="w"),), clusters=2, cores=2)

        assert timeline(once) == [("all", 0, 40)]
        assert once.traffic_bytes == {"ddr": 0, "global_buffer": 2 * 40, "local_buffer": 4 * 40}
        assert one_by_one.traffic_bytes == {"ddr": 0, "global_buffer": 4 * 40, "local_buffer": 4 * 40}
        assert once.peak_occupancy_bytes["local_buffer"] == 40
        assert one_by_one.peak_occupancy_bytes["local_buffer"] == 40

    def test_a_broadcast_queues_for_space_at_all_local_buffers_at_once(self) -> None:
        everywhere = Transfer(
            unit="broadcast", label="all", source="global_buffer", destination="local_buffer", size_bytes=5,
            fan_out=2, after=(0,), allocates=(1,), frees=(1,),
        )  # fmt: skip
        tile, other = Buffer("local_buffer", 60, label="tile"), Buffer("local_buffer", 60, label="other")
        program = Program(
            instructions=(
                fetch("load", 10, allocates=(0,)),
                add("use", 10, after=(0,), frees=(0,)),
                everywhere,
                fetch("small", 5),
                fetch("load other", 10, allocates=(2,)),
            ),
            buffers=(tile, Buffer("local_buffer", 60, fan_out=2, label="all"), other),
            clusters=1,
            cores=2,
            scopes=dsa_machine(SPEC).scopes,
        )

        together, each = simulate(program, SPEC), simulate(unrolled(program), SPEC)

        assert timeline(together)[2:] == [("all", 20, 25), ("small", 10, 15), ("load other", 25, 35)]
        assert timeline(each)[-2:] == [("load other", 25, 35), ("load other", 25, 35)]

    def test_cores_without_a_global_buffer_broadcast_from_one_local_buffer_to_all(self) -> None:
        spec = load_hardware("ipu_mk1")
        everywhere = Transfer(
            unit="broadcast", label="all", source="local_buffer", destination="local_buffer", size_bytes=40,
            fan_out=16,
        )  # fmt: skip

        assert run(everywhere, spec=spec, cores=16).traffic_bytes == {"ddr": 0, "local_buffer": 17 * 40}

    def test_cores_that_read_one_by_one_share_the_global_buffer(self) -> None:
        narrow = with_values(SPEC, {"global_buffer.bandwidth": "1 TB/s"})

        assert timeline(run(fetch("each", 40), spec=narrow, clusters=2, cores=2)) == [("each", 0, 80)]


class TestProducts:
    """The matrix unit has 64 rows and 32 columns, and takes one step of depth per cycle."""

    @pytest.mark.parametrize(
        ("rows", "columns", "depth", "count", "time_ps"),
        [
            (64, 32, 10, 1, 10),
            (1, 1, 10, 1, 10),
            (65, 32, 10, 1, 20),
            (64, 33, 10, 1, 20),
            (32, 64, 10, 1, 10),
            (128, 64, 10, 3, 120),
            (64, 32, 0, 1, 0),
        ],
    )
    def test_a_tile_that_does_not_fill_the_array_costs_what_a_full_one_does(
        self, rows: int, columns: int, depth: int, count: int, time_ps: int
    ) -> None:
        assert run(product("mm", rows, columns, depth, count)).makespan_ps == time_ps

    @settings(deadline=None)
    @given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
    def test_no_tile_beats_the_peak_and_full_ones_reach_it(self, rows: int, columns: int, depth: int) -> None:
        unit = SPEC.units["matrix"]
        full = replace(product("mm", rows, columns, depth), rows=64 * rows, columns=32 * columns)

        assert compute_ps(SPEC, "matrix", unit, product("mm", rows, columns, depth)) >= ceil(
            rows * columns * depth / 2048
        )
        assert compute_ps(SPEC, "matrix", unit, full) == rows * columns * depth

    def test_narrower_numbers_go_faster(self) -> None:
        unit = SPEC.units["matrix"]

        assert compute_ps(SPEC, "matrix", unit, product("mm", 64, 32, 10)) == 10
        assert compute_ps(SPEC, "matrix", unit, replace(product("mm", 64, 32, 10), dtype="int8")) == 5

    def test_depth_is_padded_like_rows_and_columns(self) -> None:
        spec = load_hardware("ipu_mk1")
        unit = spec.units["matrix"]

        # 1 x 8 x 16 at 32 a cycle of 625 ps: four cycles a pass.
        assert compute_ps(spec, "matrix", unit, product("mm", 1, 8, 16)) == 4 * 625
        assert compute_ps(spec, "matrix", unit, product("mm", 1, 8, 17)) == 8 * 625

    def test_an_inefficient_unit_takes_longer(self) -> None:
        half = with_values(SPEC, {"units.matrix.efficiency": 0.5})

        assert compute_ps(half, "matrix", half.units["matrix"], product("mm", 64, 32, 10)) == 20

    def test_a_vector_unit_does_products_lane_by_lane(self) -> None:
        unit = SPEC.units["vector"]

        assert compute_ps(SPEC, "vector", unit, product("mm", 8, 8, 3)) == 3


class TestElements:
    """The vector unit has 64 lanes and needs two cycles for a special operation."""

    @pytest.mark.parametrize(
        ("macs", "simple", "special", "time_ps"),
        [(0, 64, 0, 1), (0, 65, 0, 2), (64, 64, 0, 2), (0, 0, 65, 4), (1, 1, 1, 4), (0, 0, 0, 0)],
    )
    def test_operations_go_through_the_lanes_kind_by_kind(
        self, macs: int, simple: int, special: int, time_ps: int
    ) -> None:
        work = VectorCompute(unit="vector", dtype="fp16", macs=macs, simple=simple, special=special)

        assert compute_ps(SPEC, "vector", SPEC.units["vector"], work) == time_ps


class TestWhatHelps:
    """The trace says what is in the way; making that faster helps, making anything else faster does not."""

    FASTER_DDR = with_values(SPEC, {"ddr.bandwidth": "2 TB/s"})
    FASTER_MATRIX = with_values(SPEC, {"units.matrix.macs_per_cycle.fp16": 4096})

    def test_a_network_that_ddr_holds_up(self) -> None:
        work = load("x", 100), load("w", 100), product("mm", 64, 32, 10)
        base = run(*work, clusters=2)

        assert base.critical_ps == {"ddr": 400}
        assert run(*work, spec=self.FASTER_DDR, clusters=2).makespan_ps == 200
        assert run(*work, spec=self.FASTER_MATRIX, clusters=2).makespan_ps == 400

    def test_a_network_that_its_products_hold_up(self) -> None:
        work = load("x", 10), product("mm", 64, 32, 100)
        base = run(*work, clusters=2)

        assert base.critical_ps == {"matrix": 100}
        assert run(*work, spec=self.FASTER_DDR, clusters=2).makespan_ps == 100
        assert run(*work, spec=self.FASTER_MATRIX, clusters=2).makespan_ps == 50


class TestDescription:
    def test_memories_and_units_are_counted_over_the_whole_machine(self) -> None:
        machine = dsa_machine(SPEC)

        assert {name: memory.copies for name, memory in machine.memories.items()} == {
            "local_buffer": 4, "global_buffer": 2, "ddr": 1,
        }  # fmt: skip
        assert {name: (unit.scope, unit.count) for name, unit in machine.units.items()} == {
            "matrix": ("core", 4), "vector": ("core", 4), "vector_core": ("core", 4),
            "path_load": ("core", 4), "path_store": ("core", 4), "broadcast": ("cluster", 2),
            "dma_load": ("cluster", 2), "dma_store": ("cluster", 2), "launch": ("cluster", 2),
        }  # fmt: skip

    def test_a_machine_without_global_buffer_loads_into_local_ones(self) -> None:
        spec = load_hardware("ipu_mk1")
        assert "global_buffer" not in dsa_machine(spec).memories
        spread = Transfer(
            unit="dma_load",
            label="x",
            source="ddr",
            destination="local_buffer",
            size_bytes=1216,
            allocates=(0,),
        )

        result = run(spread, buffers=(Buffer("local_buffer", 1216, label="x"),), spec=spec, cores=1216)

        assert result.traffic_bytes == {"local_buffer": 1216, "ddr": 1216}
        assert result.peak_occupancy_bytes == {"local_buffer": 1, "ddr": 0}

    def test_idle_clusters_count_in_utilisation(self) -> None:
        result = run(load("in", 100))

        assert result.busy_ps == {"dma_load": 100}
        assert result.utilisation["dma_load"] == 0.5
        assert result.utilisation["ddr"] == 1

    @pytest.mark.parametrize("name", RESERVED_NAMES)
    def test_a_unit_may_not_take_the_name_of_what_every_machine_has(self, name: str, tmp_path: Path) -> None:
        mine = tmp_path / "mine.yaml"
        mine.write_text(PRESET.replace("\n  vector_core:", f"\n  {name}:"), encoding="utf-8")

        with pytest.raises(HardwareError, match=f"units.{name}: is what every machine has; needs another"):
            load_hardware(mine)

    def test_every_dtype_that_is_computed_has_its_energy(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.yaml"
        mine.write_text(PRESET.replace("\n    int8: 0.137 pJ", ""), encoding="utf-8")

        with pytest.raises(HardwareError, match=r"energy\.mac has fp16; needs int8 too, which units\.matrix"):
            load_hardware(mine)

    @settings(deadline=None)
    @given(st.integers(0, 10**12), st.integers(1, 10**12))
    def test_a_transfer_takes_whole_picoseconds_rounded_up(self, size_bytes: int, rate: int) -> None:
        time_ps = ceil_ps(size_bytes, rate)

        assert (time_ps - 1) * rate < size_bytes * 10**12 <= time_ps * rate
