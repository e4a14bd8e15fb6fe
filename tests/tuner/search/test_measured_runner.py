"""Candidates on this machine: times, and reasons where there are none."""

import random
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.scheduler.kernels.loops.steps import Inline
from dsascape.tuner.measure import LOCAL
from dsascape.tuner.measure.tasks import CandidateBudget
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Candidates
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.runners import MeasuredRunner
from dsascape.tuner.search.search import Search
from dsascape.tuner.search.space import Program, Space
from dsascape.tuner.search.tuners import SearchOptions
from tests.tuner.search.test_search import tasks
from tests.tuner.servers import Server

pytestmark = [pytest.mark.tvm, pytest.mark.slow]
QUICK = CandidateBudget(repeat_s=0.005)


def test_programs_have_times_and_what_is_no_program_a_reason() -> None:
    task = tasks()[0]
    space, rng = Space(task.naive, task.machine), random.Random(0)
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
