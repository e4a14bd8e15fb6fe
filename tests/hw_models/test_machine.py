"""What a machine does with a program, worked out by hand."""

import importlib.resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw_models import Buffer, HardwareError, Program, Transfer, load_hardware, simulate, unrolled, with_values
from hw_models.clustered_dsa import RESERVED_NAMES
from hw_models.machine import ceil_ps, dsa_machine
from tests.hw_models.story import SPEC, add, fetch, load, product, run, store, timeline

PRESET = (importlib.resources.files("hw_models") / "presets/stcp920.yaml").read_text(encoding="utf-8")


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
