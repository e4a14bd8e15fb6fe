"""The regions that a layer run needs are routed from the memories where their slices lie."""

from dsascape.scheduler import TensorSlice
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.placing.needs import share_by_memory
from dsascape.scheduler.dsa.schedule.schedule import BufferScope
from dsascape.workloads.loopnest import Box

REST = ((0, 4), (0, 8))


def part(rows: tuple[int, int], memory: BufferScope) -> TensorSlice:
    """Return some rows of a tensor of 4 x 4 x 8 in fp16."""
    return TensorSlice("x", (rows, *REST), memory, Binding((1, 1, 1), (0, 1, 2)), (rows[1] - rows[0]) * 4 * 8 * 2)


def rows(lo: int, hi: int) -> Box:
    return ((lo, hi), *REST)


def test_shares_by_memory_count_what_is_needed_only() -> None:
    upper, lower = part((0, 3), "local_buffer"), part((3, 4), "global_buffer")

    assert share_by_memory((upper, lower), rows(0, 4)) == {"local_buffer": 0.75, "global_buffer": 0.25}
    assert share_by_memory((upper, lower), rows(2, 4)) == {"local_buffer": 0.5, "global_buffer": 0.5}
    assert share_by_memory((upper,), lower.box) == {}
