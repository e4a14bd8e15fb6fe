"""The instructions of a layer run are written once per range of burst sizes that leave them unchanged."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Instruction
from dsascape.scheduler import Schedule, make_policy
from dsascape.scheduler.dsa.lower.code import RunCode
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.lower.stores import smallest_burst_bytes
from dsascape.scheduler.dsa.view import DsaView
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of
from tests.tiers import examples

MIB = 1 << 20
SPEC = machine(cores_per_cluster=2)


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


def smallest(sizes: list[int]) -> list[int]:
    """Return the smallest burst size that is as good as each of ``sizes``, for outputs of the first convolution.

    It has 4 tiles of 17,280 bytes, and 1 MiB to gather bursts in.
    """
    schedule = unfused()
    run, execution = schedule.instances[0].runs[0], schedule.executions[0]
    code = RunCode.of(run, replace(execution, tiling=replace(execution.tiling, global_buffers=(MIB,))))
    tiling = code.execution(run.layer).tiling
    assert math.prod(tiling.counts) == 4
    assert run.layer.tile_work(tiling.tile).output_bytes * code.cores == 17_280
    return [smallest_burst_bytes(run.layer, code, tiling, {"ddr": 1.0}, size) for size in sizes]


def test_burst_sizes_that_gather_the_same_tiles_are_one_argument() -> None:
    """One tile a burst up to 17,280 bytes, two up to 34,560, then three and one, then all four in the last one."""
    assert smallest([1, 17_280, 17_281, 34_560, 34_561, 51_840, 51_841, MIB]) == [
        1, 1, 17_281, 17_281, 34_561, 34_561, 51_841, 51_841,
    ]  # fmt: skip


def test_outputs_that_stay_on_chip_have_no_bursts() -> None:
    schedule = unfused()
    run, execution = schedule.instances[0].runs[0], schedule.executions[0]
    code = RunCode.of(run, execution)
    assert smallest_burst_bytes(run.layer, code, code.execution(run.layer).tiling, {"local_buffer": 1.0}, 100) == 0


def test_instructions_read_no_addresses_and_no_free_space() -> None:
    schedule = unfused()
    run = schedule.instances[0].runs[0]
    execution = RunCode.of(run, schedule.executions[0]).execution(run.layer)

    assert execution.tiling.counts == schedule.executions[0].tiling.counts
    with pytest.raises(AttributeError, match="addresses is left out of this part of the layer run"):
        bool(execution.addresses)
    with pytest.raises(AttributeError, match="local_buffers is left out"):
        bool(execution.tiling.local_buffers)


SIZES = st.sampled_from([tiles * size + more for tiles in (1, 2, 3) for size in (17_280, 28_800) for more in (0, 1)])


@settings(max_examples=examples(15))
@given(st.lists(st.tuples(SIZES, st.integers(1, 70_000)), min_size=2, max_size=4))
def test_cached_programs_equal_those_written_from_scratch(sizes: list[tuple[int, int]]) -> None:
    schedule = unfused()

    for stored_bytes, burst_bytes in sizes:
        from_scratch = program(unfused(), stored_bytes, burst_bytes)
        assert program(schedule, stored_bytes, burst_bytes) == from_scratch
