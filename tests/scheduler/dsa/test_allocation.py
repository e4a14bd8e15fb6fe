"""Address allocation: no two live buffers overlap, gaps are exact, and the longest-lived are spilled."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.scheduler.dsa.placing.allocation import Block, LiveBuffer, addresses, fit, gaps, put, without_spilled

STEPS = 12


@st.composite
def live_ranges(draw: st.DrawFn) -> range:
    begin = draw(st.integers(0, STEPS - 1))
    return range(begin, draw(st.integers(begin + 1, STEPS)))


@st.composite
def buffer_lists(draw: st.DrawFn) -> list[LiveBuffer]:
    buffers = []
    for owner in range(draw(st.integers(1, 10))):
        live = draw(live_ranges())
        scratch = draw(st.dictionaries(st.sampled_from(live), st.integers(1, 4), max_size=2))
        buffers.append(LiveBuffer(owner, draw(st.integers(1, 8)), live, scratch))
    return buffers


def held_at(step: int, buffers: list[LiveBuffer]) -> int:
    return sum(w.size_bytes + w.scratch_bytes.get(step, 0) for w in buffers if step in w.live)


def test_gaps_lie_between_and_behind_the_blocks() -> None:
    blocks = [Block(8, 4), Block(0, 2), Block(10, 4)]

    assert list(gaps(blocks, 20)) == [Block(2, 6), Block(14, 6)]
    assert list(gaps([], 20)) == [Block(0, 20)]
    assert list(gaps([Block(0, 20)], 20)) == []


def test_each_buffer_needs_one_gap_for_itself() -> None:
    assert fit((6, 4), (6, 4))
    assert fit((3, 3, 4), (6, 4))
    assert not fit((5, 5), (6, 4))
    assert not fit((1,), ())
    assert fit((0,), ())


SIZES = st.lists(st.integers(1, 9), max_size=6)


@given(sizes=SIZES, free=SIZES)
def test_blocks_lie_in_the_gaps_and_not_on_each_other(sizes: list[int], free: list[int]) -> None:
    there = [Block(10 * number, size) for number, size in enumerate(free)]
    found = put(sizes, there)

    assert (found is not None) == fit(sizes, sorted(free, reverse=True))
    if found is not None:
        assert [block.size_bytes for block in found] == sizes
        assert all(any(gap.address <= b.address and end(b) <= end(gap) for gap in there) for b in found)
        assert all(end(one) <= other.address for one, other in pairwise(sorted(found, key=lambda b: b.address)))


def end(block: Block) -> int:
    return block.address + block.size_bytes


@given(buffer_lists(), st.integers(1, 20), st.booleans())
def test_kept_buffers_fit_at_every_step(buffers: list[LiveBuffer], capacity: int, longest: bool) -> None:
    kept = without_spilled(buffers, capacity, longest=longest)

    assert all(held_at(step, kept) <= capacity for step in range(STEPS))
    if all(held_at(step, buffers) <= capacity for step in range(STEPS)):
        assert sorted(w.owner for w in kept) == [w.owner for w in buffers]


@given(buffer_lists(), st.integers(1, 20))
def test_what_is_spilled_met_a_full_buffer_and_outlived_all_who_stayed_beside_it(
    buffers: list[LiveBuffer], capacity: int
) -> None:
    kept = without_spilled(buffers, capacity)
    owners = {w.owner for w in kept}
    fitting = [each for each in buffers if each.size_bytes + max(each.scratch_bytes.values(), default=0) <= capacity]

    assert owners <= {each.owner for each in fitting}
    for buffer in fitting:
        if buffer.owner not in owners:
            assert any(
                held_at(step, fitting) > capacity
                and all(len(other.live) <= len(buffer.live) for other in kept if step in other.live)
                for step in buffer.live
            )


@pytest.mark.parametrize(("size_bytes", "beside_bytes"), [(5, 0), (3, 2)])
def test_nothing_makes_room_for_what_never_fits(size_bytes: int, beside_bytes: int) -> None:
    """A residual holds two of four bytes for six steps; a buffer of five for one of these steps does not spill it."""
    residual, large = LiveBuffer(0, 2, range(6)), LiveBuffer(1, size_bytes, range(2, 3), {2: beside_bytes})

    assert without_spilled([residual, large], 4) == [residual]


@given(buffer_lists(), st.integers(1, 20))
def test_no_two_buffers_share_a_byte_while_both_live(buffers: list[LiveBuffer], capacity: int) -> None:
    found = addresses(buffers, capacity)

    for one in buffers:
        if one.owner not in found:
            continue
        assert 0 <= found[one.owner] <= capacity - one.size_bytes
        for other in buffers:
            if other.owner in found and other.owner > one.owner and set(one.live) & set(other.live):
                first, second = sorted((found[w.owner], w.size_bytes) for w in (one, other))
                assert first[0] + first[1] <= second[0]


@given(buffer_lists(), st.integers(1, 20))
def test_room_is_left_at_the_steps_that_need_it_beside(buffers: list[LiveBuffer], capacity: int) -> None:
    found = addresses(buffers, capacity)
    placed = [w for w in buffers if w.owner in found]

    for step in range(STEPS):
        alive = [Block(found[w.owner], w.size_bytes) for w in placed if step in w.live]
        free = [size_bytes for _, size_bytes in gaps(alive, capacity)]
        scratch = [w.scratch_bytes[step] for w in placed if step in w.scratch_bytes]
        assert packs(scratch, free), step


def packs(sizes: list[int], free: list[int]) -> bool:
    """Return whether each of ``sizes`` finds a gap for itself, by trying all of them."""
    if not sizes:
        return True
    first, *rest = sizes
    return any(
        packs(rest, [*free[:place], gap - first, *free[place + 1 :]]) for place, gap in enumerate(free) if gap >= first
    )


def test_all_live_ranges_are_known_before_the_first_address_is_given() -> None:
    """Three blocks of 2 fill 6 bytes. One lives on: in the middle it would leave two gaps of 2, and 4 come next."""
    in_order_of_arrival = [Block(2, 2)]
    assert [size_bytes for _, size_bytes in gaps(in_order_of_arrival, 6)] == [2, 2]

    buffers = [
        LiveBuffer(0, 2, range(1)),
        LiveBuffer(1, 2, range(2)),
        LiveBuffer(2, 2, range(1)),
        LiveBuffer(3, 4, range(1, 2)),
    ]
    found = addresses(buffers, 6)

    assert set(found) == {0, 1, 2, 3}
    assert found[1] in (0, 4)


def test_a_buffer_keeps_away_from_those_that_ended_just_before_it_where_there_is_room() -> None:
    buffers = [LiveBuffer(0, 4, range(1)), LiveBuffer(1, 4, range(1, 2))]

    assert addresses(buffers, 8, apart_steps=0) == {0: 0, 1: 0}
    assert addresses(buffers, 8, apart_steps=1) == {0: 0, 1: 4}
    assert addresses(buffers, 7, apart_steps=1) == {0: 0, 1: 0}
