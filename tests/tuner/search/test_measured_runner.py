"""Candidates on this machine: times, and reasons where there are none."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.experiments.real.tuning import task_rows
from dsascape.fusion import fixed_pattern_plan
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.kernels.loops.steps import Inline
from dsascape.tuner.measure import LOCAL
from dsascape.tuner.measure.tasks import CandidateBudget
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Candidates
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.kinds.cpu import CpuSpace, tasks_of
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.runners import Answer, MeasuredRunner
from dsascape.tuner.search.search import Search
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.tuner.search.tuners import SearchOptions
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.tuner.search.test_search import VIEW, tasks
from tests.tuner.servers import Server
from tests.tuner.test_candidates import far_beyond

pytestmark = [pytest.mark.tvm, pytest.mark.slow, pytest.mark.usefixtures("forked_children")]
QUICK = CandidateBudget(repeat_s=0.005)


def test_programs_have_times_and_what_is_no_program_a_reason() -> None:
    task = tasks()[0]
    space, rng = CpuSpace(task.naive, task.machine), random.Random(0)
    programs = [task.program(), space.draw(rng), space.draw(rng)]
    broken = Program((Inline("no such stage"),), programs[0].loops)
    with MeasuredRunner(LOCAL, "llvm", 1, QUICK) as runner:
        answers = list(runner.answers(task, [*programs, broken]))
    assert all(each.seconds is not None and each.seconds > 0 and each.threads == 1 for each in answers[:3])
    assert answers[3].seconds is None
    assert "no such stage" in answers[3].reason


def test_a_device_behind_rpc_answers_too() -> None:
    task, server = tasks()[0], Server()
    try:
        with MeasuredRunner(server.device, "llvm", 1, QUICK) as runner:
            (answer,) = runner.answers(task, [task.program()])
    finally:
        server.kill()
    assert answer.seconds is not None
    assert answer.seconds > 0


class Crashing(MeasuredRunner):
    """This machine, with a task of which each program reads far behind the end of its operands."""

    def __init__(self, broken: str) -> None:
        super().__init__(LOCAL, "llvm", 1, QUICK)
        self._broken = broken

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        if task.key == self._broken:
            far = far_beyond(task.builtin)
            yield from super().answers(task, [Program(far, program.loops) for program in programs])
        else:
            yield from super().answers(task, programs)


def test_a_task_whose_every_candidate_crashes_is_given_up_with_its_reason(tmp_path: Path) -> None:
    """Processes really crash; the other task gets all trials that are left, after three units of nothing."""
    net = Net()
    graph = net.graph(net.softmax(net.conv(net.input(1, 4, 8, 8), 8, 1)), dtype="fp32")
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(VIEW, Analysis(graph), "fp32"))
    own = tasks_of(schedule, VIEW)
    broken, other = own
    candidates = Candidates(tmp_path, "here", "test")
    options = SearchOptions(trials=8, unit=1, tuner="random")
    with Crashing(broken.key) as runner:
        found = Search(own, [{0: 1, 1: 1}], runner, candidates, TotalLatency(), options)
        list(found.run())
    assert [each.trials for each in found.tasks] == [3, 5]
    reasons = {each.task: each.answer.reason for each in candidates.records()}
    assert "SIGSEGV" in reasons[broken.key]
    assert reasons[other.key] == ""
    assert [key for key, _ in found.kernels()] == [other.key]
    given_up = {row["key"]: row["given_up"] for row in task_rows(found)}
    assert "SIGSEGV" in given_up[broken.key]
    assert given_up[other.key] is None


def test_a_search_stores_each_candidate_as_it_is_measured(tmp_path: Path) -> None:
    own = tasks()[:1]
    candidates = Candidates(tmp_path, "here", "test")
    options = SearchOptions(trials=8, unit=4, evolution=EvolutionOptions(population=16, generations=1))
    with MeasuredRunner(LOCAL, "llvm", 1, QUICK) as runner:
        found = Search(own, [{0: 1}], runner, candidates, TotalLatency(), options)
        list(found.run())
    assert found.trials == 8
    units = [each.unit for each in candidates.records()]
    assert units == [BUILTIN] + [1] * 4 + [2] * 4 + [CONFIRMED] * 4
    assert len({each.elapsed_s for each in candidates.records()}) == 13
