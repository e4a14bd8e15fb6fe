"""Candidates of one kernel: each is built, checked and timed, and costs itself alone where it fails."""

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import FusionPlan, fixed_pattern_plan
from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.steps import Layout, Step, Steps, Tile, Unroll, Vectorise
from dsascape.tuner.measure import (
    CandidateBudget,
    CandidateResult,
    CandidateRunner,
    KernelTask,
    MeasureError,
    PreparedTask,
    TargetError,
)
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.scheduler.kernels.drawn import LANES
from tests.tuner.runs import tiles_of
from tests.tuner.servers import Server, free_port

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

QUICK = CandidateBudget(repeat_s=0.01, fewest=3, start_s=20)


def network(*, channels: int = 8, size: int = 8) -> FusionPlan:
    """Return a padded convolution and a pointwise one, each with its activation, as two kernels."""
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, size, size), channels))
    return fixed_pattern_plan(net.graph(net.relu(net.conv(x, 4, 1)), dtype="fp32"))


PLAN = network()


def task(group: int, plan: FusionPlan = PLAN) -> KernelTask:
    return KernelTask(plan.graph, tuple(sorted(plan.groups[group].ops)), 1, budget=QUICK)


def steps(group: int, plan: FusionPlan = PLAN) -> Steps:
    """Return the steps of the scheduler's choice."""
    layer = layer_of(Analysis(plan.graph), plan.groups[group].ops)
    assert layer is not None
    return steps_of(layer, tiles_of(plan)[group], LANES)


def with_tiles(given: Steps, rows: int) -> Steps:
    """Return the steps with tiles of so many rows."""

    def changed(step: Step) -> Step:
        if not isinstance(step, Tile) or len(step.levels) != 2:
            return step
        first = step.levels[0]
        assert first.sizes is not None
        sizes = [rows if dim == 2 else size for dim, size in zip(first.order, first.sizes, strict=True)]
        return replace(step, levels=(replace(first, sizes=tuple(sizes)), step.levels[1]))

    return tuple(map(changed, given))


@pytest.fixture(scope="module")
def runner() -> Iterator[CandidateRunner]:
    with CandidateRunner() as found:
        yield found


@pytest.fixture(scope="module")
def prepared(runner: CandidateRunner) -> tuple[PreparedTask, ...]:
    return runner.prepare([task(0), task(1)])


def is_timed(result: CandidateResult) -> bool:
    return result.seconds is not None and result.seconds > 0 and not result.reason


def test_candidates_that_are_right_have_seconds(runner: CandidateRunner, prepared: tuple[PreparedTask, ...]) -> None:
    found = list(runner.results(prepared[0], [with_tiles(steps(0), rows) for rows in (1, 2, 4, 8)]))

    assert all(map(is_timed, found)), found


def test_tasks_follow_each_other_in_one_process(
    runner: CandidateRunner, prepared: tuple[PreparedTask, ...]
) -> None:
    before = pids()
    found = [next(runner.results(prepared[each], [steps(each)])) for each in (0, 1, 0)]

    assert all(map(is_timed, found)), found
    assert pids() == before


def pids() -> set[int | None]:
    return {process.pid for process in multiprocessing.active_children()}


def test_steps_of_another_kernel_have_no_code(runner: CandidateRunner, prepared: tuple[PreparedTask, ...]) -> None:
    found = list(runner.results(prepared[0], [steps(0), steps(1), steps(0)]))

    assert [is_timed(each) for each in found] == [True, False, True]
    assert "no code: StepError" in found[1].reason


def test_another_result_than_the_reference_has_no_time(
    runner: CandidateRunner, prepared: tuple[PreparedTask, ...]
) -> None:
    (result,) = layer_outputs(prepared[0])
    values = {**prepared[0].values, result: prepared[0].values[result] + np.float32(1)}

    (found,) = runner.results(replace(prepared[0], values=values), [steps(0)])

    assert found.seconds is None
    assert "another result than onnxruntime" in found.reason


def layer_outputs(found: PreparedTask) -> tuple[str, ...]:
    layer = layer_of(Analysis(found.task.graph), found.task.ops)
    assert layer is not None
    return layer.outputs


def far_beyond(given: Steps) -> Steps:
    """Return steps whose reduction goes on far behind the end of what it reads."""
    return tuple([
        replace(step, levels=tuple([
            replace(level, sizes=(10**7,) * len(level.order)) if level.axes == "reduction" else level
            for level in step.levels
        ])) if isinstance(step, Tile) else step
        for step in given if not isinstance(step, Unroll)
    ])  # fmt: skip


def test_a_candidate_that_crashes_costs_itself_alone(
    runner: CandidateRunner, prepared: tuple[PreparedTask, ...]
) -> None:
    right = steps(1)

    found = list(runner.results(prepared[1], [right, far_beyond(right), right, far_beyond(right)]))

    assert [is_timed(each) for each in found] == [True, False, True, False], found
    assert "SIGSEGV" in found[1].reason


def test_a_process_that_ends_while_it_builds_several_costs_none_of_them(
    runner: CandidateRunner, prepared: tuple[PreparedTask, ...]
) -> None:
    def candidates() -> Iterator[Steps]:
        yield steps(0)
        for process in multiprocessing.active_children():
            process.kill()
        yield with_tiles(steps(0), 2)

    next(runner.results(prepared[0], [steps(0)]))

    assert all(map(is_timed, runner.results(prepared[0], candidates())))


def element_by_element(given: Steps) -> Steps:
    """Return steps by which everything is done again, padding included, for each element of the result."""
    return tuple([
        replace(step, levels=tuple([
            replace(level, sizes=(1,) * len(level.order)) if level.axes == "space" else level for level in step.levels
        ])) if isinstance(step, Tile) else step
        for step in given if not isinstance(step, Vectorise | Unroll | Layout)
    ])  # fmt: skip


def test_a_candidate_that_takes_too_long_costs_itself_alone(runner: CandidateRunner) -> None:
    net = Net()
    x = net.relu(net.conv(net.input(1, 128, 48, 48), 128))
    plan = fixed_pattern_plan(net.graph(x, dtype="fp32"))
    limited = replace(task(0, plan), budget=replace(QUICK, run_s=0.8))
    right = steps(0, plan)
    (large,) = runner.prepare([limited])

    found = list(runner.results(large, [right, element_by_element(right), right]))

    assert [is_timed(each) for each in found] == [True, False, True], found
    assert found[1].reason == "while it ran: took longer than 0.8 s"


def test_results_come_in_the_order_of_the_candidates(
    runner: CandidateRunner, prepared: tuple[PreparedTask, ...]
) -> None:
    is_right = [True, False, False, True, True, False, True] * 3
    candidates = [steps(0) if each else steps(1) for each in is_right]

    assert [is_timed(each) for each in runner.results(prepared[0], iter(candidates))] == is_right


def test_caches_are_flushed_where_the_task_says_so(runner: CandidateRunner) -> None:
    (flushed,) = runner.prepare([replace(task(0), flush_caches=True)])

    assert all(map(is_timed, runner.results(flushed, [steps(0)] * 3)))


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.kill()


def test_candidates_run_behind_rpc_too(server: Server) -> None:
    with CandidateRunner() as remote:
        found = remote.prepare([replace(task(each), device=server.device) for each in (0, 1)])

        first = list(remote.results(found[0], [with_tiles(steps(0), rows) for rows in (1, 2, 4)]))
        second = list(remote.results(found[1], [steps(1), steps(0), steps(1)]))

    assert all(map(is_timed, first)), first
    assert [is_timed(each) for each in second] == [True, False, True], second
    assert "no code" in second[1].reason


def test_a_crash_of_a_server_costs_that_candidate_and_the_next_server_goes_on() -> None:
    """A session that crashes ends TVM's server; a tracker has others."""
    tracker = Server("tracker")
    options = "--tracker", f"127.0.0.1:{tracker.port}", "--key", "board"
    servers = [Server("server", *options), Server("server", *options)]
    right = steps(1)
    try:
        with CandidateRunner() as remote:
            (found,) = remote.prepare([replace(task(1), device=f"{tracker.device}/board")])
            results = list(remote.results(found, [right, far_beyond(right), right]))
    finally:
        for each in (*servers, tracker):
            each.kill()

    assert [is_timed(each) for each in results] == [True, False, True], results


def test_a_device_that_goes_is_said(server: Server) -> None:
    with CandidateRunner() as remote:
        (found,) = remote.prepare([replace(task(0), device=server.device)])
        results = remote.results(found, [steps(0)] * 100)
        assert is_timed(next(results))
        server.kill()

        with pytest.raises(MeasureError):
            list(results)


def test_a_device_that_is_not_there_is_said_at_once() -> None:
    with CandidateRunner() as remote, pytest.raises(MeasureError, match=r"is not reached: .*refused"):
        remote.prepare([replace(task(0), device=f"rpc://127.0.0.1:{free_port()}")])


@pytest.mark.parametrize(("target", "device", "message"), [
    ("cuda", "local", "no CUDA device is here to measure on"), ("opencl", "local", "no OpenCL device is here"),
    ("cuda-7", "local", "needs cuda with an architecture such as cuda-sm_90"),
])  # fmt: skip
def test_code_for_a_gpu_that_is_not_there_is_refused(
    target: str, device: str, message: str, runner: CandidateRunner
) -> None:
    with pytest.raises(TargetError, match=message):
        runner.prepare([replace(task(0), target=target, device=device)])


def test_a_kernel_without_a_loop_program_is_refused(runner: CandidateRunner) -> None:
    net = Net()
    plan = fixed_pattern_plan(net.graph(net.op("CumSum", [net.input(4, 8), net.integers(1)], (4, 8)), dtype="fp32"))

    with pytest.raises(MeasureError, match="no steps describe its loops"):
        runner.prepare([task(0, plan)])
