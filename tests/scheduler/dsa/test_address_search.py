"""The address search gives the result of its definition, which examines every step and every buffer."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.dsa.placing.allocation import Block, LiveBuffer, addresses, gaps, without_spilled
from dsascape.scheduler.dsa.placing.occupied_addresses import OccupiedAddresses
from tests.tiers import examples

STEPS = 40


@st.composite
def buffer_lists(draw: st.DrawFn) -> list[LiveBuffer]:
    buffers = []
    for owner in draw(st.permutations(range(draw(st.integers(1, 14))))):
        begin = draw(st.integers(0, STEPS - 1))
        live = range(begin, min(begin + draw(st.sampled_from([1, 2, 3, 8, 30])), STEPS))
        scratch = draw(st.dictionaries(st.sampled_from(live), st.integers(0, 4), max_size=2))
        buffers.append(LiveBuffer(owner, draw(st.integers(0, 9)), live, scratch))
    return buffers


def spilled_by_looking(buffers: Sequence[LiveBuffer], capacity: int, *, longest: bool) -> set[int]:
    """Return whom it hits when, step by step, all that are there are summed up and the first to go is looked for.

    What does not fit alone, at each of its steps, is never there.
    """
    fitting = [b for b in buffers if all(b.size_bytes + more <= capacity for more in (0, *b.scratch_bytes.values()))]
    kept = {buffer.owner: buffer for buffer in fitting}
    for step in range(STEPS):
        alive = [buffer for buffer in kept.values() if step in buffer.live]
        comes_or_needs = [b for b in fitting if b.live.start == step or step in b.scratch_bytes]
        while comes_or_needs and sum(b.size_bytes + b.scratch_bytes.get(step, 0) for b in alive) > capacity:
            victim = max(alive, key=lambda b: (len(b.live) if longest else 0, b.live.start, b.owner))
            alive.remove(victim)
            del kept[victim.owner]
    return {buffer.owner for buffer in buffers} - set(kept)


def addresses_by_looking(buffers: Sequence[LiveBuffer], capacity: int, apart_steps: int) -> dict[int, int]:
    orders = (
        sorted(buffers, key=lambda w: (-w.size_bytes, w.live.start, w.owner)),
        sorted(buffers, key=lambda w: (-len(w.live), -w.size_bytes, w.owner)),
        sorted(buffers, key=lambda w: (w.live.start, -len(w.live), w.owner)),
    )
    tried = [in_order_by_looking(order, capacity, apart) for apart in (apart_steps, 0) for order in orders]
    return min(tried, key=lambda found: sum(b.size_bytes for b in buffers if b.owner not in found))


def in_order_by_looking(buffers: Sequence[LiveBuffer], capacity: int, apart_steps: int) -> dict[int, int]:
    """Return the addresses when for each buffer all others are looked at, at every step of its live range."""
    held: list[tuple[range, Block]] = []
    found = {}
    for buffer in buffers:
        taken: list[tuple[range, Block]] = []
        parts = [(buffer.live, buffer.size_bytes)]
        parts += [(range(step, step + 1), size) for step, size in sorted(buffer.scratch_bytes.items())]
        for live, size in parts:
            fitting: list[Block] = []
            for more in (apart_steps, 0):
                steps = set(range(live.start - more, live.stop + more))
                there = [block for other, block in (*held, *taken) if steps & set(other)]
                fitting = fitting or [Block(*gap) for gap in gaps(there, capacity) if gap[1] >= size]
            if not fitting:
                break
            smallest = min(fitting, key=lambda gap: (gap.size_bytes, gap.address))
            taken.append((live, Block(smallest.address, size)))
        else:
            found[buffer.owner] = taken[0][1].address
            held += taken
    return found


@given(buffer_lists(), st.integers(1, 40), st.booleans())
def test_spilled_buffers_are_those_of_the_definition(
    buffers: list[LiveBuffer], capacity: int, longest: bool
) -> None:
    kept = without_spilled(buffers, capacity, longest=longest)

    assert {b.owner for b in buffers} - {b.owner for b in kept} == spilled_by_looking(
        buffers, capacity, longest=longest
    )


@settings(max_examples=examples(200))
@given(buffer_lists(), st.integers(1, 40), st.sampled_from([0, 1, 3]))
def test_addresses_are_those_of_the_definition(
    buffers: list[LiveBuffer], capacity: int, apart_steps: int
) -> None:
    assert addresses(buffers, capacity, apart_steps) == addresses_by_looking(buffers, capacity, apart_steps)


@given(data=st.data(), window_steps=st.integers(0, 12))
def test_every_block_is_found_once_for_any_window_length(
    data: st.DataObject, window_steps: int
) -> None:
    occupied = OccupiedAddresses(window_steps)
    lives = []
    for number in range(data.draw(st.integers(0, 8))):
        live = range(begin := data.draw(st.integers(0, 20)), begin + data.draw(st.integers(1, 20)))
        occupied.add(live, 10 * number, 10)
        lives.append(live)
    begin = data.draw(st.integers(-3, 30))
    asked = range(begin, begin + data.draw(st.integers(1, 20)))

    there = [(10 * number, 10 * number + 10) for number, live in enumerate(lives) if set(live) & set(asked)]
    assert occupied.during(asked.start, asked.stop) == there
