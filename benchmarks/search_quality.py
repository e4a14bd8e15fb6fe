"""How good the parts of a search are: ``python -m benchmarks.search_quality``.

Programs of a product and of a convolution are drawn, and simulated: how many a second; and how well a cost model that
has learned four fifths of them orders the others, and finds their fastest. The machine is to be idle.
"""

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.cost_model import CostModel
from dsascape.tuner.search.features import features_of
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import described, single_operator

KERNELS: Mapping[str, Mapping[str, object]] = {
    "matmul 512": {"op": "MatMul", "inputs": [[512, 512]], "weights": [[512, 512]]},
    "conv 64x56x56, 3x3": {
        "op": "Conv", "inputs": [[1, 64, 56, 56]], "weights": [[64, 64, 3, 3]], "attributes": {"pads": [1, 1, 1, 1]},
        "then": ["Relu"],
    },
}  # fmt: skip
RATE, ORDER, RECALL = 300, 0.8, 0.5
"""Aims: programs simulated a second on two cores, pairs in order, share of the fastest that is found."""
TOP = 30
_DTYPE = "fp32"


@dataclass(frozen=True)
class Drawn:
    """Distinct programs of one kernel, with their times."""

    task: Task
    programs: Sequence[Program]
    seconds: Sequence[float]
    draws_per_s: float
    answers_per_s: float


def drawn(name: str, view: CpuView, count: int, seed: int) -> Drawn:
    """Draw and simulate programs of one of `KERNELS`."""
    graph = single_operator(described(name, KERNELS[name])).with_dtype(_DTYPE)
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    naive, machine = NaiveProgram(layer), SearchMachine.of_cpu(view, _DTYPE)
    space, rng, found = CpuSpace(naive, machine), random.Random(seed), dict[object, Program]()
    begin = time.perf_counter()
    draws = 0
    while len(found) < count and draws < 4 * count:
        program = space.draw(rng)
        found[program.steps] = program
        draws += 1
    between = time.perf_counter()
    task, programs = Task(name, naive, machine, 1, (), 1), list(found.values())
    answers = list(SimulatedRunner(view, _DTYPE).answers(task, programs))
    end = time.perf_counter()
    both = zip(programs, answers, strict=True)
    timed = [(each, answer.seconds) for each, answer in both if answer.seconds is not None]
    return Drawn(
        task, [each for each, _ in timed], [each for _, each in timed], draws / (between - begin),
        len(programs) / (end - between),
    )  # fmt: skip


def learned(own: Drawn, seed: int) -> tuple[float, float]:
    """Return the share of pairs that a model puts in order, and of the fastest that it finds, of a fifth held back."""
    features = [features_of(own.task.naive, each.loops, own.task.machine.line_bytes) for each in own.programs]
    order = list(range(len(features)))
    random.Random(seed).shuffle(order)
    cut = len(order) * 4 // 5
    model = CostModel()
    known = order[:cut]
    model.add(own.task.key, [features[number] for number in known], [own.seconds[number] for number in known])
    model.train()
    scores = model.scores([features[number] for number in order[cut:]])
    wanted = 1 / np.array([own.seconds[number] for number in order[cut:]])
    by_score = np.sign(scores[:, None] - scores[None, :])
    by_time = np.sign(wanted[:, None] - wanted[None, :])
    told_apart = by_time != 0
    found = set(np.argsort(-scores)[:TOP].tolist()) & set(np.argsort(-wanted)[:TOP].tolist())
    return float((by_score == by_time)[told_apart].mean()), len(found) / TOP


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hardware", nargs="*", default=["epyc", "kirin990", "platinum_8269cy"])
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    print(
        f"machine, kernel: draws and answers a second on one core (aim: {RATE} on two), pairs in order (aim: {ORDER}),"
        f" of the {TOP} fastest found (aim: {RECALL})"
    )
    for machine in asked.hardware:
        view = CpuView(load_hardware(machine, Cpu))
        for name in KERNELS:
            own = drawn(name, view, asked.programs, asked.seed)
            order, recall = learned(own, asked.seed)
            rates = f"{own.draws_per_s:6.0f} {own.answers_per_s:6.0f}"
            print(f"{machine:16} {name:20} {rates} {order:6.2f} {recall:6.2f}", flush=True)


if __name__ == "__main__":
    main()
