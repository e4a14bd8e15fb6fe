"""Threads share the rows of a causal mask evenly: each takes the first and the last rows that are left, in turn."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import SplitKernel, kernel_of
from dsascape.scheduler.cpu.cost.work import kernel_work
from dsascape.scheduler.cpu.schedule.steps import program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.masked_rows import dealt, masked_rows
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import program_json, read_program
from dsascape.scheduler.kernels.loops.steps import Parallel
from tests.scheduler.cpu.test_rows_between_products import VIEW
from tests.scheduler.cpu.test_softmax_in_parts import LANES, causal, in_full, in_steps


def split_over_rows(whole: Layer, rows: int) -> LoopTiles:
    """Return tiles of so many queries, in steps of 32 keys or 40, whose parallel loop goes over heads and queries."""
    found = next(each for each in in_steps(whole) if each.tile[2] == 16 and each.depth_step in (32, 40))
    return replace(found, tile=(1, 1, rows, 4), order=(2, 0, 1, 3), parallel=1)


def kernel(rows: int, threads: int, *, is_dealt: bool = True, whole: Layer | None = None) -> SplitKernel:
    whole = causal() if whole is None else whole
    steps = steps_of(whole, split_over_rows(whole, rows), LANES)
    own = tuple([replace(step, dealt=-1) if isinstance(step, Parallel) and not is_dealt else step for step in steps])
    return kernel_of(whole, own, threads, "fp32", VIEW)


@given(number=st.integers(1, 60))
def test_every_part_is_taken_once_and_pairs_of_neighbours_make_up_the_ends(number: int) -> None:
    order = [dealt(each, number) for each in range(number)]

    assert sorted(order) == list(range(number))
    assert all(order[each] + order[each + 1] == number - 1 for each in range(0, number - 1, 2))


def test_rows_of_a_mask_are_queries() -> None:
    found = masked_rows(causal())

    assert found is not None
    assert (found.dim, found.size, found.columns, found.column_dim) == (2, 64, 64, -1)
    assert masked_rows(in_full()) is None


def test_two_threads_do_as_much() -> None:
    """Tiles of 16 queries have 16, 32, 48 and 64 keys: 16 + 64 and 32 + 48, but 48 and 112 one after the other."""
    assert kernel(16, 2).chunks.densities == ()
    assert kernel(16, 2, is_dealt=False).chunks.densities == pytest.approx((48 / 80, 112 / 80))


def test_what_is_left_over_is_counted() -> None:
    """Five tiles of 16 queries have 16 to 80 keys; one thread gets the first three, the other one two."""
    chunks = kernel(16, 2, is_dealt=False, whole=causal(80)).chunks

    assert (chunks.iterations, chunks.last_iterations) == (3, 2)
    assert chunks.densities == pytest.approx((96 / 3 / 48, 144 / 2 / 48))
    assert chunks.heaviest == pytest.approx(144 / 3 / 48)


def test_the_slowest_thread_sets_the_time_and_nothing_is_lost() -> None:
    even, uneven = kernel(16, 2), kernel(16, 2, is_dealt=False)
    even_ps, uneven_ps = estimate(even).time_ps, estimate(uneven).time_ps
    alone_ps = estimate(kernel(16, 1)).time_ps
    works = [kernel_work(each) for each in (even, uneven)]
    (first, second), (few, many) = [[each.payload.macs for each in work.chunks] for work in works]

    assert even_ps < uneven_ps < alone_ps
    assert first == second
    assert few + many == first + second
    assert many / few == pytest.approx(112 / 48, rel=1e-3)


def test_the_parallel_step_says_so_and_is_read() -> None:
    whole = causal()
    program = program_of(whole, split_over_rows(whole, 16), LANES)
    found = next(step for step in program.steps if isinstance(step, Parallel))

    assert found.dealt == 2
    assert "parallel for m0 in 4, m0 from both ends in turn:" in str(program)
    assert read_program(json.loads(json.dumps(program_json(program)))) == program
