"""Concurrent instructions share memory bandwidth, and the trace names the memory that limited each."""

import pytest

from dsascape.hw_models import Instruction, Transfer, with_values
from tests.hw_models.story import SPEC, add, load, product, run, store, timeline


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
        spec = with_values(SPEC, {"ddr.bandwidth": "900 GB/s"})

        # Two clusters with a load and a store each share DDR: 4 B at 0.9 B/ps.
        assert timeline(run(load("a", 1), store("b", 1), spec=spec, clusters=2)) == [("a", 0, 5), ("b", 0, 5)]

    @pytest.mark.parametrize("in_flight", [1, 2])
    def test_the_older_of_two_loads_has_the_bandwidth_first(self, in_flight: int) -> None:
        spec = with_values(SPEC, {"dma.load_channels": 2, "dma.load.in_flight": in_flight})

        result = run(load("a", 100), load("b", 50), load("c", 20), spec=spec)

        assert timeline(result) == [("a", 0, 100), ("b", 0, 150), ("c", 100, 170)]
        assert result.trace.limits == ["dma_load", "ddr", "ddr"]

    def test_a_younger_load_takes_nothing_from_a_store(self) -> None:
        spec = with_values(SPEC, {"dma.load_channels": 2})

        result = run(load("a", 100), load("b", 100), store("out", 100), spec=spec)

        assert timeline(result) == [("a", 0, 200), ("b", 0, 300), ("out", 0, 200)]

    def test_a_second_channel_takes_the_next_transfer_at_once(self) -> None:
        spec = with_values(SPEC, {"dma.load_channels": 2, "ddr.bandwidth": "4 TB/s"})

        result = run(load("a", 10), load("b", 20), load("c", 10), spec=spec)

        assert timeline(result) == [("a", 0, 10), ("b", 0, 20), ("c", 10, 20)]

    def test_each_burst_starts_the_channel_up(self) -> None:
        spec = with_values(SPEC, {"dma.load.startup": "5 ps"})
        moved = Transfer(source="ddr", destination="global_buffer", size_bytes=10, bursts=3)

        result = run(Instruction(unit="dma_load", label="three", payload=moved), spec=spec)

        assert timeline(result) == [("three", 0, 25)]
        assert result.critical_ps == {"dma_load-startup": 15, "dma_load": 10}


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
