"""Start-ups of transfers in flight overlap with earlier transfers, up to a stated number of them."""

import pytest

from dsascape.hw_models import Buffer, ClusteredDsa, with_values
from tests.hw_models.story import SPEC, add, launch, load, run, timeline


def engine(in_flight: int, startup_ps: int = 10, channels: int = 1) -> ClusteredDsa:
    """Return the story's machine with a DMA whose transfers start up for ``startup_ps``."""
    return with_values(
        SPEC,
        {
            "dma.load.in_flight": in_flight,
            "dma.load.startup": f"{startup_ps} ps",
            "dma.load_channels": channels,
        },
    )


def test_the_second_start_up_passes_under_the_first_transfers_data() -> None:
    result = run(load("a", 20), load("b", 20), load("c", 20), spec=engine(in_flight=2))

    assert timeline(result) == [("a", 0, 30), ("b", 30, 50), ("c", 50, 70)]
    assert list(result.trace.issued_ps) == [0, 0, 30]
    assert list(result.trace.startup_ps) == [10, 0, 0]
    assert result.critical_ps == {"dma_load-startup": 10, "dma_load": 60}
    assert result.busy_ps["dma_load"] == 70


def test_one_in_flight_starts_up_every_time() -> None:
    result = run(load("a", 20), load("b", 20), load("c", 20), spec=engine(in_flight=1))

    assert timeline(result) == [("a", 0, 30), ("b", 30, 60), ("c", 60, 90)]


@pytest.mark.parametrize(("in_flight", "makespan_ps"), [(1, 44), (2, 23), (3, 22), (4, 14), (8, 14)])
def test_short_transfers_are_paced_by_latency_over_what_is_in_flight(in_flight: int, makespan_ps: int) -> None:
    result = run(*(load(f"{n}", 1) for n in range(4)), spec=engine(in_flight))

    assert result.makespan_ps == makespan_ps


def test_the_rest_of_a_start_up_occupies_the_channel() -> None:
    result = run(load("a", 4), load("b", 20), launch("go", after=(0,)), spec=engine(in_flight=2))

    assert timeline(result)[:2] == [("a", 0, 14), ("b", 14, 34)]
    late = run(add("before", 12), load("a", 4), load("b", 20, after=(0,)), spec=engine(in_flight=2))
    assert timeline(late)[1:] == [("a", 0, 14), ("b", 14, 42)]
    assert list(late.trace.startup_ps) == [0, 10, 8]


def test_transfers_are_issued_in_the_order_of_the_queue() -> None:
    result = run(add("x", 50), load("late", 20, after=(0,)), load("early", 20), spec=engine(in_flight=2))

    assert timeline(result)[1:] == [("late", 50, 80), ("early", 80, 100)]
    assert result.waited_ps["dma_load"] == {"vector": 50}


def test_waiting_counts_only_while_the_channel_is_idle() -> None:
    result = run(load("a", 20), add("x", 50), load("b", 20, after=(1,)), spec=engine(in_flight=2))

    assert timeline(result)[2] == ("b", 50, 80)
    assert result.waited_ps["dma_load"] == {"vector": 20}


def test_buffers_are_taken_when_a_transfer_is_issued() -> None:
    buffers = Buffer("global_buffer", 600, label="a"), Buffer("global_buffer", 600, label="b")

    result = run(
        load("a", 20, allocates=(0,)),
        add("use a", 30, after=(0,), frees=(0,)),
        load("b", 20, allocates=(1,)),
        buffers=buffers,
        spec=engine(in_flight=2),
    )

    assert timeline(result) == [("a", 0, 30), ("use a", 30, 60), ("b", 60, 90)]
    assert result.trace.released_by[2] == 1
    assert result.waited_ps["dma_load"] == {"space": 30}


def test_several_channels_serve_what_is_issued_in_order() -> None:
    result = run(*(load(f"{n}", 20) for n in range(4)), spec=engine(in_flight=2, channels=2))

    starts = [start for _, start, _ in timeline(result)]
    assert starts == sorted(starts)
    assert list(result.trace.issued_ps) == [0, 0, 0, 0]
