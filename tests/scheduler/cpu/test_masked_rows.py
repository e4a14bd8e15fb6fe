"""Threads share the rows of a causal mask evenly: each takes the first and the last rows that are left, in turn."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import TiledKernel
from dsascape.scheduler.cpu.cost.work import kernel_work
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.masked_rows import dealt, masked_rows
from dsascape.scheduler.cpu.structure.read_loops import read_loops
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import program_json, read_program
from dsascape.scheduler.kernels.loops.steps import Parallel
from tests.scheduler.cpu.test_rows_between_products import VIEW
from tests.scheduler.cpu.test_softmax_in_parts import LANES, causal, in_full, in_steps


def split_over_rows(whole: Layer, rows: int) -> LoopTiles:
    """Return tiles of so many queries of 64, in steps of 32 keys, whose parallel loop goes over heads and queries."""
    found = next(each for each in in_steps(whole) if each.tile[2] == 16 and each.depth_step == 32)
    return replace(found, tile=(1, 1, rows, 4), order=(2, 0, 1, 3), parallel=1)


def kernel(rows: int, threads: int, *, is_dealt: bool = True) -> TiledKernel:
    whole = causal()
    tiled = replace(split_over_rows(whole, rows).tiled, is_dealt=is_dealt)
    return TiledKernel(whole, tiled, threads, "fp32", VIEW)


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
    """Three tiles of 24 queries have 24, 48 and 64 keys; two threads get the first and the last, and the middle one."""
    chunks = kernel(24, 2).chunks

    assert (chunks.iterations, chunks.last_iterations) == (2, 1)
    assert chunks.densities == pytest.approx((88 / 2 / (136 / 3), 48 / (136 / 3)))
    assert chunks.heaviest == chunks.densities[0]


def test_the_slowest_thread_sets_the_time_and_nothing_is_lost() -> None:
    even, uneven = kernel(16, 2), kernel(16, 2, is_dealt=False)
    even_ps, uneven_ps = estimate(even).time_ps, estimate(uneven).time_ps
    alone_ps = estimate(kernel(16, 1)).time_ps
    works = [kernel_work(causal(), replace(split_over_rows(causal(), 16).tiled, is_dealt=each), 2, "fp32", VIEW)
             for each in (True, False)]  # fmt: skip
    (first, second), (few, many) = [[each.payload.macs for each in work.chunks] for work in works]

    assert even_ps < uneven_ps < alone_ps
    assert first == second
    assert few + many == first + second
    assert many / few == pytest.approx(112 / 48, rel=1e-3)


def test_the_parallel_step_says_so_and_is_read() -> None:
    whole = causal()
    program = program_of(whole, split_over_rows(whole, 16), LANES)
    found = next(step for step in program.steps if isinstance(step, Parallel))
    without = tuple([replace(step, dealt=-1) if step is found else step for step in program.steps])

    assert found.dealt == 2
    assert "parallel for m0 in 4, m0 from both ends in turn:" in str(program)
    assert read_program(json.loads(json.dumps(program_json(program)))) == program
    assert read_loops(whole, program).is_dealt
    assert not read_loops(whole, program_of(whole, without, LANES)).is_dealt
