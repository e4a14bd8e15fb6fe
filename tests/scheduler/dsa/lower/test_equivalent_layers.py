"""The instructions of a layer run are written once per range of burst sizes that leave them unchanged."""

from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Instruction
from dsascape.scheduler import Schedule, make_policy
from dsascape.scheduler.dsa.lower.layer import EquivalentLayers, WrittenLayer
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.programs.fragments import FragmentWriter
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of
from tests.tiers import examples

MIB = 1 << 20
SPEC = machine(cores_per_cluster=2)


def written(equivalent_bytes: range) -> WrittenLayer:
    return WrittenLayer(FragmentWriter().written(), (), (), (), -1, {}, equivalent_bytes)


def unfused() -> Schedule:
    """Return convolutions whose outputs go to DDR, in tiles of 17,280 and 28,800 bytes."""
    net = Net("two")
    return schedule_of(make_policy("unfused"), net.graph(net.conv(net.conv(net.input(1, 16, 40, 36), 24), 20)), SPEC)


def program(schedule: Schedule, stored_bytes: int, burst_bytes: int) -> list[Instruction]:
    """Return the instructions where bursts of outputs are of ``stored_bytes``, and all others of ``burst_bytes``.

    There is room for all outputs in the global buffer.
    """
    executions = []
    for one in schedule.executions:
        room = *one.tiling.global_buffers[:-1], MIB
        executions.append(replace(one, tiling=replace(one.tiling, store_burst_bytes=stored_bytes, global_buffers=room)))
    changed = replace(schedule, executions=tuple(executions), burst_bytes=burst_bytes)
    return list(lower(changed, DsaView(SPEC, 1)).instructions)


def test_written_code_serves_all_equivalent_burst_sizes() -> None:
    layers, ten, twenty = EquivalentLayers(), written(range(5, 11)), written(range(11, 21))

    assert layers.get(10, lambda: ten) is ten
    assert layers.get(5, lambda: twenty) is ten
    assert layers.get(11, lambda: twenty) is twenty


def test_a_few_of_them_are_kept() -> None:
    layers = EquivalentLayers()
    first, *others = [written(range(size, size + 1)) for size in range(20)]
    layers.get(0, lambda: first)
    for size, other in enumerate(others, 1):
        layers.get(size, partial(written, other.equivalent_bytes))

    assert layers.get(0, lambda: others[0]) is others[0]


SIZES = st.sampled_from([tiles * size + more for tiles in (1, 2, 3) for size in (17_280, 28_800) for more in (0, 1)])


@settings(max_examples=examples(15))
@given(st.lists(st.tuples(SIZES, st.integers(1, 70_000)), min_size=2, max_size=4))
def test_cached_programs_equal_those_written_from_scratch(sizes: list[tuple[int, int]]) -> None:
    schedule = unfused()

    for stored_bytes, burst_bytes in sizes:
        from_scratch = program(unfused(), stored_bytes, burst_bytes)
        assert program(schedule, stored_bytes, burst_bytes) == from_scratch
