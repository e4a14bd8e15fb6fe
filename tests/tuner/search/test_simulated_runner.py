"""The simulated runner: the time on the best number of threads, whatever is left out to find it."""

import random

import pytest

from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.estimate import among_others_ps
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of_program
from dsascape.scheduler.cpu.view import CpuView
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.tasks import Task
from tests.tiers import examples
from tests.tuner.search import kernels


@pytest.mark.parametrize("machine", ["kirin990", "platinum_8269cy"])
def test_the_time_is_the_least_of_all_numbers_of_threads(machine: str) -> None:
    view = CpuView(load_hardware(machine, Cpu))
    wide = kernels.matmul(3136, 96, 16)  # chunks that do not come out even, of which the last is for the slowest core
    for naive in (kernels.matmul(64, 48, 32), kernels.convolution(16, 14, 32), kernels.softmax(32, 64), wide):
        own = SearchMachine.of_cpu(view, "fp32")
        space, rng = CpuSpace(naive, own), random.Random(0)
        programs = [space.draw(rng) for _ in range(examples(24, few=6))]
        answers = SimulatedRunner(view, "fp32").answers(Task("key", naive, own, 1, (), 1), programs)
        for program, answer in zip(programs, answers, strict=True):
            times = [
                among_others_ps(kernel_of_program(naive.layer, program.loops, each, "fp32", view))
                for each in view.thread_counts
            ]  # fmt: skip
            assert answer.seconds == min(times) / PS_PER_S
