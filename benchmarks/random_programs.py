"""Predicted beside measured, off the chosen path: ``python -m benchmarks.random_programs [NETWORK ...]``.

For every kernel with an anchor, programs are drawn from all that ``dsascape tune`` draws from (``--draws search``), or
as ``--draws tiles`` says: register tiles, tiles and their order, a further level of tiles, a reduction in steps.
Each is built, checked against onnxruntime, timed on one thread and predicted by the machine model. What counts is the
order within a kernel: the rank correlation (Spearman), in the mean over kernels.
"""

import argparse
import itertools
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from dsascape.experiments.real.accuracy import mape, spearman
from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import cpu_limits, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import ComputeAt, Level, Step, Steps, Tile
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.parts import divisors
from dsascape.tuner.measure import CandidateBudget, CandidateRunner, KernelTask, PreparedTask
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis

NETWORKS = ("mobilenet-v2", "resnet18")
_BUDGET = CandidateBudget(repeat_s=0.02, width=0.05)
_MOST_REGISTERS = 64
_DTYPE = "fp32"


def drawn(kernel: CpuKernel, view: CpuView, rng: random.Random) -> Iterator[Steps]:
    """Yield the built-in choice, then programs drawn at random that the machine can run."""
    lanes = view.lanes(_DTYPE)
    own = CpuCosts(view, kernel.layer.analysis, _DTYPE).tiling_of(kernel.layer).tiles
    yield kernel.steps
    while True:
        tiles = _tiles(kernel, own, lanes, rng)
        steps = steps_of(kernel.layer, tiles, lanes)
        steps = _further_level(steps, kernel, tiles, rng) if rng.random() < 1 / 3 else steps
        if not illegal(loop_program(NaiveProgram(kernel.layer), steps), cpu_limits(view)):
            yield steps


def searched(kernel: CpuKernel, view: CpuView, rng: random.Random) -> Iterator[Steps]:
    """Yield the built-in choice, then programs as a search draws them."""
    yield kernel.steps
    space = CpuSpace(NaiveProgram(kernel.layer), SearchMachine.of_cpu(view, _DTYPE))
    while True:
        yield space.draw(rng).steps


DRAWS: Mapping[str, Callable[[CpuKernel, CpuView, random.Random], Iterator[Steps]]] = {
    "search": searched, "tiles": drawn,
}  # fmt: skip


def _tiles(kernel: CpuKernel, own: LoopTiles, lanes: int, rng: random.Random) -> LoopTiles:
    """Return tiles whose sizes are drawn: register tiles of whole vectors, tiles of whole register tiles."""
    shape = kernel.layer.sink.shape
    register = [1] * len(shape)
    columns = -(-shape[own.vector_dim] // lanes)
    register[own.vector_dim] = lanes * rng.choice([each for each in (1, 2, 3, 4) if each <= columns])
    inner = [dim for dim in reversed(kernel.layer.sink.order) if dim != own.vector_dim and shape[dim] > 1]
    if inner:
        most = max(_MOST_REGISTERS * lanes // register[own.vector_dim] // 2, 1)
        register[inner[0]] = rng.randint(1, min(shape[inner[0]], most, 16))
    tile = [part * rng.choice(divisors(-(-size // part))) for size, part in zip(shape, register, strict=True)]
    order = list(range(len(shape)))
    rng.shuffle(order)
    depth = own.depth_step if rng.random() < 1 / 2 else None
    return LoopTiles(tuple(tile), tuple(order), 0, tuple(register), own.vector_dim, depth)


def _further_level(steps: Steps, kernel: CpuKernel, tiles: LoopTiles, rng: random.Random) -> Steps:
    """Return ``steps`` with one more level of tiles of the sink, between the two that there are."""
    sink, order = kernel.layer.sink.name, list(tiles.order)
    rng.shuffle(order)
    sizes = {
        dim: part * rng.choice(divisors(-(-size // part)))
        for dim, (size, part) in enumerate(zip(tiles.tile, tiles.register, strict=True))
    }
    level = Level("space", tuple(order), tuple([sizes[dim] for dim in order]))

    def changed(step: Step) -> Step:
        if isinstance(step, Tile) and step.stage == sink:
            return replace(step, levels=(step.levels[0], level, *step.levels[1:]))
        if isinstance(step, ComputeAt) and step.scope == "register":
            return replace(step, loops=step.loops + len(order))
        return step

    return tuple(map(changed, steps))


class Bench:
    """The kernels of one network on one thread of this machine."""

    def __init__(self, network: str, hardware: str, seed: int, draws: str) -> None:
        graph = load_network(network).with_dtype(_DTYPE)
        self.view = CpuView(load_hardware(hardware, Cpu), CpuTuning(threads=1, winograd=0))
        self.costs = CpuCosts(self.view, Analysis(graph), _DTYPE)
        self.schedule = kernel_by_kernel(fixed_pattern_plan(graph), self.costs)
        self.rng, self.draws = random.Random(seed), DRAWS[draws]
        found = {kernel.layer.signature: kernel for kernel in self.schedule.runs if anchored_nest(kernel.layer)}
        self.kernels = tuple(found.values())
        """One of each kind of kernels that have an anchor."""

    def tasks(self) -> list[KernelTask]:
        """Return the kernels as tasks for a runner."""
        return [KernelTask(kernel.layer.graph, kernel.layer.ops, 1, budget=_BUDGET) for kernel in self.kernels]

    def figures(
        self, kernel: CpuKernel, count: int, runner: CandidateRunner, task: PreparedTask
    ) -> tuple[list[float], list[float]]:
        """Return the measured and predicted seconds of ``count`` programs of a kernel, the built-in choice first."""
        taken, predicted = [], []
        programs = list(itertools.islice(self.draws(kernel, self.view, self.rng), count))
        for number, (steps, result) in enumerate(zip(programs, runner.results(task, programs), strict=True)):
            own = replace(kernel, steps=steps)
            if result.seconds is None:
                print(f"{kernel.name}: program {number} is left out: {result.reason}", file=sys.stderr)
                continue
            taken.append(result.seconds)
            alone = CpuSchedule(self.schedule.plan, (own,), _DTYPE)
            predicted.append(repeated_kernels(alone, self.costs)[own.group].seconds)
        return taken, predicted


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--hardware", default="epyc", help="description of this machine (dsascape calibrate)")
    parser.add_argument("--programs", type=int, default=16, help="programs of each kernel")
    parser.add_argument("--draws", choices=sorted(DRAWS), default="search")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    print("network         kernels  programs  Spearman  error  chosen / best")
    for network in asked.networks:
        bench = Bench(network, asked.hardware, asked.seed, asked.draws)
        ranks, errors, regrets = [], [], []
        with CandidateRunner() as runner:
            figures = [
                bench.figures(kernel, asked.programs, runner, task)
                for kernel, task in zip(bench.kernels, runner.prepare(bench.tasks()), strict=True)
            ]
        for taken, predicted in figures:
            rank = spearman(predicted, taken)
            ranks += [] if rank is None or math.isnan(rank) else [rank]
            errors.append(mape(predicted, taken) or 0.0)
            regrets.append(taken[0] / min(taken))
        shown = statistics.mean(ranks), statistics.mean(errors), statistics.mean(regrets)
        print(f"{network:15} {len(ranks):7} {asked.programs:9} {shown[0]:9.2f} {shown[1]:6.0%} {shown[2]:14.2f}")


if __name__ == "__main__":
    main()
