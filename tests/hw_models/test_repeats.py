"""Kernels that come again take as long as before, unless they find less space; and random programs of such kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st

from dsascape.hw_models import Buffer, ClusteredDsa, Instruction, Program, with_values
from tests.hw_models.story import SPEC, add, fetch, launch, load, program, simulated, store, timeline


def kernels(count: int, *, third_holds: bool = False) -> list[Instruction]:
    """Return kernels that load, fetch and add four tiles, each in a buffer; the third may take one more, for good."""
    found: list[Instruction] = []
    for number in range(count):
        first, buffers = len(found), 4 * number
        held = (4 * count,) if third_holds and first == 2 * 13 else ()
        found.append(launch(f"{number}", after=tuple(range(first))[-12:], allocates=held))
        for tile in range(4):
            at = first + 1 + 3 * tile
            found += [
                load(f"{number} load {tile}", 20, after=(first,)),
                fetch(f"{number} fetch {tile}", 10, after=(at,), allocates=(buffers + tile,)),
                add(f"{number} add {tile}", 30, after=(at + 1,), frees=(buffers + tile,)),
            ]
    return found


def test_equal_kernels_last_equally_long() -> None:
    result = simulated(program(*kernels(5), buffers=(Buffer("local_buffer", 20),) * 20))

    starts_ps = [start for label, start, _ in timeline(result) if label.isdigit()]
    assert [later - sooner for sooner, later in pairwise(starts_ps)] == [157] * 4
    assert result.makespan_ps == 5 * 157


def test_an_equal_kernel_that_finds_less_space_takes_longer() -> None:
    """Three tiles of 20 B fit into 100 B until 80 B are kept for good: then each waits for the sum before it."""
    buffers = *(Buffer("local_buffer", 20),) * 20, Buffer("local_buffer", 80)

    result = simulated(program(*kernels(5, third_holds=True), buffers=buffers))

    starts_ps = [start for label, start, _ in timeline(result) if label.isdigit()]
    assert [later - sooner for sooner, later in pairwise(starts_ps)] == [157, 157, 187, 187]


def test_only_the_first_wait_of_a_repeated_block_depends_on_the_past() -> None:
    """The second of four equal kernels comes later: its first load waits longer, and nothing inside it does."""
    waits = add("between", 1000, after=tuple(range(13)))
    body = kernels(4)
    late = [replace(one, after=tuple([before + (before > 12) for before in one.after])) for one in body[13:]]
    late[0] = replace(late[0], after=(13,))

    result = simulated(program(*body[:13], waits, *late, buffers=(Buffer("local_buffer", 20),) * 16))

    assert result.makespan_ps == 4 * 157 + 1000
    assert result.waited_ps["dma_load"]["launch"] == 4 * 7 + 3 * 70 + 1000


SIZES = st.integers(0, 40)
STARTUPS = st.sampled_from(["0 ps", "0 ps", "13 ps", "90 ps"])
MAKERS: dict[str, Callable[[str, int], Instruction]] = {"load": load, "fetch": fetch, "add": add, "store": store}


@st.composite
def machines(draw: st.DrawFn) -> ClusteredDsa:
    values: dict[str, str | int] = {"local_buffer.capacity": "200 B"}
    values["ddr.bandwidth"] = draw(st.sampled_from(["1 TB/s", "700 GB/s"]))
    for channel in ("dma.load", "dma.store", "on_chip_path"):
        values[f"{channel}.startup"] = draw(STARTUPS)
        values[f"{channel}.in_flight"] = draw(st.sampled_from([1, 1, 2, 4]))
    return with_values(SPEC, values)


@dataclass(frozen=True)
class Body:
    """Instructions of a kernel, with their dependencies within it, allocations, and releases of earlier buffers."""

    makers: Sequence[str]
    sizes: Sequence[int]
    after: Sequence[Sequence[int]]
    held_bytes: Sequence[int]
    frees: Sequence[Sequence[int]]


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    count = draw(st.integers(12, 24))
    each = range(count)
    earlier = [st.lists(st.integers(0, max(place - 1, 0)), max_size=2 if place else 0, unique=True) for place in each]
    held_bytes = [draw(st.sampled_from([0, 0, 5, 20])) for _ in each]
    left = {place for place in each if held_bytes[place]}
    frees = []
    for place in each:
        frees.append([held for held in draw(earlier[place]) if held in left])
        left.difference_update(frees[-1])
    makers = [draw(st.sampled_from(sorted(MAKERS))) for _ in each]
    return Body(makers, [draw(SIZES) for _ in each], [draw(earlier[place]) for place in each], held_bytes, frees)


@st.composite
def repeating(draw: st.DrawFn) -> tuple[Program, ClusteredDsa]:
    """Return kernels that come again in some order, of which each may free what the one before it has left behind."""
    spec, drawn = draw(machines()), [draw(bodies()), draw(bodies())]
    instructions, buffers, left = list[Instruction](), list[Buffer](), list[int]()
    before: range | tuple[int, ...] = ()
    for which in draw(st.lists(st.sampled_from([0, 0, 1]), min_size=4, max_size=8)):
        body, first, held = drawn[which], len(instructions), dict[int, int]()
        frees, left = (left, []) if draw(st.integers(0, 3)) else ([], left)
        instructions.append(launch(f"{first}", after=tuple(before), frees=tuple(frees)))
        for place, size in enumerate(body.sizes):
            one = MAKERS[body.makers[place]](f"{first} {place}", size)
            after = [first + 1 + waits for waits in body.after[place]] or [first]
            freed = [held[other] for other in body.frees[place]]
            after += [first + 1 + other for other in body.frees[place]]  # who frees space waits for whoever has it
            taken: tuple[int, ...] = ()
            if body.held_bytes[place]:
                taken = (len(buffers),)
                held[place] = len(buffers)
                buffers.append(Buffer("local_buffer", body.held_bytes[place]))
            instructions.append(replace(one, after=tuple(sorted({*after})), allocates=taken, frees=tuple(freed)))
        left += [held[place] for place in held if not any(place in row for row in body.frees)]
        before = range(first, len(instructions))
    return program(*instructions, buffers=tuple(buffers), spec=spec), spec
