"""The cost model: its loss by hand, and how well it orders programs that it has not seen."""

import random

import numpy as np
import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.cost_model import CostModel, gradients, throughputs
from dsascape.tuner.search.features import features_of
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from tests.tuner.search import kernels

TOP = 20


def test_the_gradient_is_that_of_the_weighted_square_of_the_sum() -> None:
    """Two programs of two statements and of one: y (sum - y)^2 by each statement is 2 y (sum - y)."""
    predicted = np.array([0.5, 0.25, 0.1])
    slopes, curvatures = gradients(predicted, np.array([0, 0, 1]), np.array([1.0, 0.5]))
    assert slopes == pytest.approx([2 * (0.75 - 1), 2 * (0.75 - 1), 2 * 0.5 * (0.1 - 0.5)])
    assert curvatures == pytest.approx([2, 2, 1])


def test_throughput_is_relative_to_the_fastest_and_zero_for_what_failed() -> None:
    assert throughputs([2.0, 1.0, None, 4.0]) == [0.5, 1.0, 0.0, 0.25]
    assert throughputs([None]) == [0.0]


def test_nothing_is_learned_from_failures_alone() -> None:
    model = CostModel()
    model.add("a", [np.zeros((2, 164))], [None])
    model.train()
    assert not model.is_trained
    assert list(model.scores([np.zeros((2, 164))])) == [0.0]


def drawn(naive: NaiveProgram, count: int) -> tuple[Task, list[Program], list[float]]:
    view = CpuView(load_hardware("epyc", Cpu), CpuTuning(threads=2))
    machine = SearchMachine.of_cpu(view, "fp32")
    space, rng = CpuSpace(naive, machine), random.Random(3)
    programs = list({program.steps: program for program in (space.draw(rng) for _ in range(count))}.values())
    task = Task("key", naive, machine, 1, (), 1)
    answers = list(SimulatedRunner(view, "fp32").answers(task, programs))
    return task, programs, [each.seconds or 1.0 for each in answers]


def test_programs_that_it_has_not_seen_are_ordered_and_the_fastest_found() -> None:
    """A fifth of 700 simulated programs held back: pairs in order 0.8 of the time, half of the 20 fastest found."""
    naive = kernels.convolution(64, 28, 64)
    _, programs, seconds = drawn(naive, 700)
    features = [features_of(naive, each.loops, 64) for each in programs]
    cut = len(programs) * 4 // 5
    model = CostModel()
    model.add("conv", features[:cut], seconds[:cut])
    model.train()
    scores, wanted = model.scores(features[cut:]), 1 / np.array(seconds[cut:])
    pairs = [(one, two) for one in range(len(scores)) for two in range(one) if wanted[one] != wanted[two]]
    right = np.mean([(scores[one] - scores[two]) * (wanted[one] - wanted[two]) > 0 for one, two in pairs])
    found = set(np.argsort(-scores)[:TOP]) & set(np.argsort(-wanted)[:TOP])
    assert right >= 0.8
    assert len(found) >= TOP / 2


def test_same_data_same_model() -> None:
    naive = kernels.matmul(64, 64, 64)
    _, programs, seconds = drawn(naive, 60)
    features = [features_of(naive, each.loops, 64) for each in programs]
    found = []
    for _ in range(2):
        model = CostModel()
        model.add("matmul", features, seconds)
        model.train()
        found.append(model.scores(features))
    assert (found[0] == found[1]).all()
