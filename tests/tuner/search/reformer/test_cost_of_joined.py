"""Cost of composed programs: parts one after the other, with one buffer between them that all threads share."""

from collections.abc import Callable
from functools import partial

import pytest

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.cost.tiled_kernel import SplitKernel, kernel_of_program
from dsascape.scheduler.cpu.cost.work import KernelWork, kernel_work
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Parallel, Steps
from dsascape.tuner.search.kinds.table import space_of
from dsascape.tuner.search.reformer.splitting import Split
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import Program
from tests.tuner.search.kernels import fused_pair, pair_behind
from tests.tuner.search.reformer.pairs import depthwise, pointwise, split_of

THREADS = 4
VIEW = CpuView(load_hardware("kirin990", Cpu), CpuTuning(threads=THREADS))
LARGE = pytest.mark.parametrize(
    "own", [partial(own, 60, 56) for own in (depthwise, pointwise, fused_pair, pair_behind)],
    ids=["two depthwise", "two pointwise", "depthwise, pointwise", "pointwise, depthwise"],
)  # fmt: skip


def joined(split: Split, *parallel: Parallel) -> Program:
    """Return the program that the built-in ones of the mini sub-graphs make, some with other parallel loops."""
    wanted = {step.stage: step for step in parallel}
    parts: list[Steps] = [
        tuple([wanted.get(step.stage, step) if isinstance(step, Parallel) else step for step in mini.task.builtin])
        for mini in split.minis
    ]
    program = space_of(split.whole.naive, split.whole.machine).composed(parts)
    assert program is not None
    return program


def kernel_and_work(split: Split, program: Program) -> tuple[SplitKernel, KernelWork]:
    kernel = kernel_of_program(split.whole.naive.layer, program.loops, THREADS, "fp32", VIEW)
    return kernel, kernel_work(kernel)


@LARGE
def test_a_composed_program_takes_as_long_as_its_parts_one_after_the_other(own: Callable[[], NaiveProgram]) -> None:
    """What caches hand on and the second call may save some; no part gets slower by being in one kernel."""
    split = split_of(own(), VIEW)
    runner = SimulatedRunner(VIEW, "fp32")
    apart = [next(runner.answers(mini.task, [mini.task.program()])).seconds for mini in split.minis]
    together = next(runner.answers(split.whole, [joined(split)])).seconds
    assert together is not None
    whole_s = sum([each for each in apart if each is not None])
    assert 0.8 * whole_s < together < 1.1 * whole_s


def test_what_all_threads_make_first_lies_in_one_buffer() -> None:
    split = split_of(pair_behind(60, 56), VIEW)
    kernel, work = kernel_and_work(split, joined(split))
    assert work.regions == 2  # a parallel loop each
    size_bytes = 64 * 56 * 54 * 4  # channels, rows and columns of what the pointwise convolution makes
    rows = 5 * 56 * 64 * 4  # copied with padding by each thread
    assert size_bytes < kernel.traffic.scratch_bytes < size_bytes + THREADS * 1.2 * rows
    handed = work.compulsory[0]["l2"].scratch_bytes
    assert size_bytes <= handed[1] < 1.05 * size_bytes  # written back once, in whole lines, by all threads together


def test_a_part_that_is_not_parallel_is_the_work_of_one_thread() -> None:
    split = split_of(pair_behind(60, 56), VIEW)
    sink = split.minis[0].task.naive.layer.sink.name
    _, parallel = kernel_and_work(split, joined(split))
    _, serial = kernel_and_work(split, joined(split, Parallel(sink, 0)))
    assert serial.regions == 1
    assert [sum([each.count * each.parts[0].macs for each in work.chunks]) for work in (parallel, serial)] == (
        [56 * 54 * 60 * 64] * 2
    )
    assert [each.parts[0].macs for each in serial.chunks] == [56 * 54 * 60 * 64, *[0] * len(serial.chunks[1:])]
    shared = [each.parts[0].macs for each in parallel.chunks if each.parts[0].macs]
    assert max(shared) < 56 * 54 * 60 * 64 / 2


def test_more_threads_do_not_help_a_part_that_has_fewer_chunks() -> None:
    split = split_of(pair_behind(60, 56), VIEW)
    _, work = kernel_and_work(split, joined(split))
    _, one = kernel_and_work(split, joined(split, Parallel(split.minis[0].task.naive.layer.sink.name, 0)))
    assert one.chunks[0].parts[0].issued is not None
    assert work.chunks[0].parts[0].issued is not None
    assert one.chunks[0].parts[0].issued.fma >= 2 * work.chunks[0].parts[0].issued.fma
