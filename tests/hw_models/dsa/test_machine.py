"""A scratchpad accelerator has its units and memories on the right levels.

Engines reach their peak rate on full tiles only; partial tiles take as long.
"""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import (
    Buffer,
    ClusteredDsa,
    Compute,
    HardwareError,
    Instruction,
    Launch,
    ProgramError,
    Transfer,
    compute_ps,
    dsa_machine,
    load_hardware,
    unrolled,
    with_values,
)
from tests.hw_models.story import (
    SPEC,
    add,
    broadcast,
    fetch,
    load,
    product,
    products,
    program,
    run,
    simulated,
    timeline,
)


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

    @given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
    def test_no_tile_beats_the_peak_and_full_ones_reach_it(self, rows: int, columns: int, depth: int) -> None:
        unit = SPEC.units["matrix"]
        any_tile, full = products(rows, columns, depth), products(64 * rows, 32 * columns, depth)

        assert compute_ps(SPEC, "matrix", unit, any_tile) >= ceil(rows * columns * depth / 2048)
        assert compute_ps(SPEC, "matrix", unit, full) == rows * columns * depth

    def test_narrower_numbers_go_faster(self) -> None:
        unit = SPEC.units["matrix"]

        assert compute_ps(SPEC, "matrix", unit, products(64, 32, 10)) == 10
        assert compute_ps(SPEC, "matrix", unit, products(64, 32, 10, dtype="int8")) == 5

    def test_depth_is_padded_like_rows_and_columns(self) -> None:
        spec = load_hardware("ipu_mk1", ClusteredDsa)
        unit = spec.units["matrix"]

        # 1 x 8 x 16 at 32 a cycle of 625 ps: four cycles a pass, four levels of adders, one cycle to drain.
        assert compute_ps(spec, "matrix", unit, products(1, 8, 16)) == (4 + 4 + 1) * 625
        assert compute_ps(spec, "matrix", unit, products(1, 8, 17)) == (8 + 4 + 1) * 625

    def test_an_inefficient_unit_takes_longer(self) -> None:
        half = with_values(SPEC, {"units.matrix.efficiency": 0.5})

        assert compute_ps(half, "matrix", half.units["matrix"], products(64, 32, 10)) == 20

    def test_a_vector_unit_does_products_lane_by_lane(self) -> None:
        assert compute_ps(SPEC, "vector", SPEC.units["vector"], products(8, 8, 3)) == 3

    def test_multiply_accumulates_are_no_products_without_their_shape(self) -> None:
        with pytest.raises(ProgramError, match="matrix unit 'matrix' computes matrix products only"):
            compute_ps(SPEC, "matrix", SPEC.units["matrix"], Compute(dtype="fp16", macs=8))


class TestElements:
    """The vector unit has 64 lanes and needs two cycles for a special operation."""

    @pytest.mark.parametrize(
        ("macs", "simple", "special", "time_ps"),
        [(0, 64, 0, 1), (0, 65, 0, 2), (64, 64, 0, 2), (0, 0, 65, 4), (1, 1, 1, 4), (0, 0, 0, 0)],
    )
    def test_operations_go_through_the_lanes_kind_by_kind(
        self, macs: int, simple: int, special: int, time_ps: int
    ) -> None:
        work = Compute(dtype="fp16", macs=macs, simple=simple, special=special)

        assert compute_ps(SPEC, "vector", SPEC.units["vector"], work) == time_ps


class TestRefusals:
    @pytest.mark.parametrize(
        ("instruction", "complaint"),
        [
            (Instruction(unit="dma_load", payload=Launch(), label="go"), "go: dma_load moves data only, not Launch"),
            (Instruction(unit="vector", payload=Launch(), label="go"), "go: vector computes only, not Launch"),
            (replace(add("add", 1), unit="launch"), "add: launch starts kernels only, not Compute"),
            (replace(add("add", 1), unit="matrix"), "add: matrix unit 'matrix' computes matrix products only"),
        ],
    )
    def test_work_of_another_kind_of_unit_is_refused(self, instruction: Instruction, complaint: str) -> None:
        with pytest.raises(ProgramError, match=complaint):
            run(instruction)

    def test_a_dtype_that_the_unit_lacks_is_refused(self) -> None:
        wide = Instruction(unit="vector", payload=Compute(dtype="fp32", simple=1), label="add")

        with pytest.raises(HardwareError, match="story: unit 'vector' computes fp16, int8, not fp32"):
            run(wide)

    def test_units_take_bound_work_only(self) -> None:
        with pytest.raises(ProgramError, match="add: a member of vector takes bound work only, the program needs 1"):
            run(replace(add("add", 1), blocks=4))


class TestBroadcast:
    def test_one_read_fills_all_local_buffers(self) -> None:
        everywhere = broadcast("all", 40, fan_out=2, allocates=(0,))
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
        tile, other = Buffer("local_buffer", 60, label="tile"), Buffer("local_buffer", 60, label="other")
        work = program(
            fetch("load", 10, allocates=(0,)),
            add("use", 10, after=(0,), frees=(0,)),
            broadcast("all", 5, fan_out=2, after=(0,), allocates=(1,), frees=(1,)),
            fetch("small", 5),
            fetch("load other", 10, allocates=(2,)),
            buffers=(tile, Buffer("local_buffer", 60, fan_out=2, label="all"), other),
            cores=2,
        )

        together, each = simulated(work), simulated(unrolled(work))

        assert timeline(together)[2:] == [("all", 20, 25), ("small", 10, 15), ("load other", 25, 35)]
        assert timeline(each)[-2:] == [("load other", 25, 35), ("load other", 25, 35)]

    def test_cores_without_a_global_buffer_broadcast_from_one_local_buffer_to_all(self) -> None:
        spec = load_hardware("ipu_mk1", ClusteredDsa)
        moved = Transfer(source="local_buffer", destination="local_buffer", size_bytes=40, fan_out=16)

        result = run(Instruction(unit="broadcast", payload=moved), spec=spec, cores=16)

        assert result.traffic_bytes == {"ddr": 0, "local_buffer": 17 * 40}

    def test_cores_that_read_one_by_one_share_the_global_buffer(self) -> None:
        narrow = with_values(SPEC, {"global_buffer.bandwidth": "1 TB/s"})

        assert timeline(run(fetch("each", 40), spec=narrow, clusters=2, cores=2)) == [("each", 0, 80)]


class TestDescription:
    def test_memories_and_units_are_counted_over_the_whole_machine(self) -> None:
        machine = dsa_machine(SPEC)

        assert {name: machine.count(memory.level) for name, memory in machine.memories.items()} == {
            "local_buffer": 4, "global_buffer": 2, "ddr": 1,
        }  # fmt: skip
        assert {name: (unit.level, machine.count(unit.level)) for name, unit in machine.units.items()} == {
            "matrix": ("core", 4), "vector": ("core", 4), "vector_core": ("core", 4),
            "path_load": ("core", 4), "path_store": ("core", 4), "broadcast": ("cluster", 2),
            "dma_load": ("cluster", 2), "dma_store": ("cluster", 2), "launch": ("cluster", 2),
        }  # fmt: skip

    def test_a_machine_without_global_buffer_loads_into_local_ones(self) -> None:
        spec = load_hardware("ipu_mk1", ClusteredDsa)
        assert "global_buffer" not in dsa_machine(spec).memories
        moved = Transfer(source="ddr", destination="local_buffer", size_bytes=1216)
        spread = Instruction(unit="dma_load", payload=moved, allocates=(0,))

        result = run(spread, buffers=(Buffer("local_buffer", 1216, label="x"),), spec=spec, cores=1216)

        assert result.traffic_bytes == {"local_buffer": 1216, "ddr": 1216}
        assert result.peak_occupancy_bytes == {"local_buffer": 1, "ddr": 0}

    def test_idle_clusters_count_in_utilisation(self) -> None:
        result = run(load("in", 100))

        assert result.busy_ps == {"dma_load": 100}
        assert result.utilisation["dma_load"] == 0.5
        assert result.utilisation["ddr"] == 1
