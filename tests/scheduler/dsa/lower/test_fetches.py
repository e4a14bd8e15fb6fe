"""Fetches of operands that stay in the global buffer are written one by one and coalesced into bursts."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import Compute, Transfer, Work
from dsascape.hw_models.simulation.columns import column
from dsascape.scheduler.dsa.lower.fetches import Fetches, Gathered, gathered
from dsascape.scheduler.programs.fragments import Fragment, FragmentBuffer, FragmentWriter, Outside

LOAD = Transfer(source="ddr", destination="global_buffer", size_bytes=10)


def fetches(sizes_bytes: Iterable[int], whole_bytes: int) -> Fetches:
    """Return fetches of so much each, at positions 0, 10, 20 and so on."""
    found = Fetches(whole_bytes)
    for number, size_bytes in enumerate(sizes_bytes):
        found.note(10 * number, size_bytes)
    return found


def bursts(sizes_bytes: Iterable[int], whole_bytes: int, burst_bytes: int) -> dict[int, int]:
    """Return the bytes of each burst by the position of its first fetch."""
    return {first: brought for _, first, brought in fetches(sizes_bytes, whole_bytes).bursts(burst_bytes)}


def test_a_burst_of_30_bytes_brings_three_versions_of_10() -> None:
    assert bursts([10] * 7, 70, 30) == {0: 30, 30: 30, 60: 10}


def test_what_is_ahead_counts_for_the_next_version() -> None:
    """The third version lacks 5 bytes: the second burst brings 25 for it and what follows."""
    assert bursts([10] * 5, 50, 25) == {0: 25, 20: 25}


def test_a_burst_brings_at_least_what_lacks_of_a_version() -> None:
    assert bursts([10, 10], 20, 1) == {0: 10, 10: 10}


def test_no_more_comes_than_there_is() -> None:
    """Versions overlap: the halos of all of them are more than the operand."""
    assert bursts([10, 10, 10], 25, 100) == {0: 25}
    assert bursts([10, 10, 10], 25, 10) == {0: 10, 10: 10, 20: 5}


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 300), st.integers(1, 60))
def test_versions_are_there_when_they_are_used(sizes_bytes: list[int], whole_bytes: int, burst_bytes: int) -> None:
    whole_bytes = min(whole_bytes, sum(sizes_bytes))
    brought: dict[int, int] = {}
    used_bytes = 0
    for (position, first, size), taken in zip(
        fetches(sizes_bytes, whole_bytes).bursts(burst_bytes), sizes_bytes, strict=True
    ):
        brought[first] = size
        used_bytes += taken
        assert first <= position
        assert sum(brought.values()) >= min(used_bytes, whole_bytes)
    assert sum(brought.values()) == whole_bytes


def used_tile_by_tile(tiles: int) -> tuple[Fragment, Fetches]:
    """Return a fragment that fetches a tile, computes it, and so on, and what it fetches."""
    writer, found = FragmentWriter(), Fetches(10 * tiles)
    fetch = writer.work(Work(unit="dma_load", payload=LOAD))
    add = writer.work(Work(unit="vector", payload=Compute(dtype="fp16", simple=1)), 5)
    buffer = -1
    for tile in range(tiles):
        load = writer.add(fetch, (0, " load"))
        found.note(load, 10)
        if not tile:
            buffer = writer.allocate(load, FragmentBuffer("global_buffer", 10 * tiles, (0, "")))
        last = writer.add(add, (1, ""), (load, writer.outside(Outside("slot", tile))))
    writer.free(last, buffer)
    return writer.written(), found


def in_bursts(burst_bytes: int) -> Gathered:
    fragment, found = used_tile_by_tile(4)
    return gathered(fragment, [found], burst_bytes)


def sizes_of(fragment: Fragment) -> list[int]:
    """Return the bytes of each instruction's transfer, 0 of others."""
    works = [fragment.works[number] for number in fragment.work_of]
    return [work.payload.size_bytes if isinstance(work.payload, Transfer) else 0 for work in works]


def test_one_transfer_of_20_bytes_takes_the_place_of_two_fetches() -> None:
    found = in_bursts(20).fragment

    assert sizes_of(found) == [20, 0, 0, 20, 0, 0]
    assert len(found.works) == 2
    assert list(found.after) == [(), (0, -2), (0, -3), (), (3, -4), (3, -5)]
    assert [found.labels[number] for number in found.label_of] == [(0, " load"), (1, ""), (1, "")] * 2
    assert found.exits == (1, 2, 4, 5)


def test_buffers_live_from_the_first_burst_to_the_last_use() -> None:
    found = in_bursts(40).fragment

    assert sizes_of(found) == [40, 0, 0, 0, 0]
    assert (list(found.allocated_by), list(found.freed_by)) == ([0], [4])


def test_instructions_are_found_where_they_are_now() -> None:
    assert list(in_bursts(20).now_at) == [0, 1, 0, 2, 3, 4, 3, 5]
    assert list(in_bursts(20).moved(column((7, -1, 4)))) == [5, -1, 3]


def test_bursts_of_single_versions_leave_all_as_it_is() -> None:
    fragment, found = used_tile_by_tile(3)
    same = gathered(fragment, [found], 10).fragment

    assert list(same.work_of) == list(fragment.work_of)
    assert (same.works, list(same.after), same.exits) == (fragment.works, list(fragment.after), fragment.exits)


@pytest.mark.parametrize("burst_bytes", [20, 40])
def test_each_operand_is_gathered_by_itself(burst_bytes: int) -> None:
    """Fetches of two operands take turns: a tile waits for a burst of either."""
    writer, both = FragmentWriter(), (Fetches(40), Fetches(40))
    fetch = writer.work(Work(unit="dma_load", payload=LOAD))
    for _ in range(4):
        loads = [writer.add(fetch, (place, "")) for place in (0, 1)]
        for operand, load in zip(both, loads, strict=True):
            operand.note(load, 10)
        writer.add(fetch, (2, ""), loads)

    found = gathered(writer.written(), both, burst_bytes).fragment

    expected = {20: [(0, 1), (0, 1), (4, 5), (4, 5)], 40: [(0, 1)] * 4}
    assert [row for row in found.after if row] == expected[burst_bytes]
