"""Pairs of complex operators in one kernel, as tasks of the reformer, and searches over them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.cost_model import ModelOptions
from dsascape.tuner.search.database import Candidates
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.kinds.cpu import task_of
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.reformer.splitting import Split, splits_of
from dsascape.tuner.search.search import Search
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.tuners import SearchOptions
from tests.graphs import Net
from tests.tuner.search.kernels import fused_pair, naive, pair_behind

VIEW = CpuView(load_hardware("kirin990", Cpu), CpuTuning(threads=2))
OPTIONS = SearchOptions(
    tuner="ago", trials=32, unit=4, builtin=False, evolution=EvolutionOptions(population=8, generations=1),
    model=ModelOptions(trees=10),
)


def pointwise(channels: int = 8, image: int = 7) -> NaiveProgram:
    """Return two pointwise convolutions, each with an activation."""
    net = Net()
    x = net.relu(net.conv(net.input(1, channels, image, image - 2), channels, 1))
    return naive(net, net.relu(net.conv(x, channels, 1)))


def alike(channels: int = 8, image: int = 7) -> NaiveProgram:
    """Return three pointwise convolutions, the last two of which are alike; the first reads the network's input."""
    net = Net()
    x = net.input(1, channels, image, image - 2)
    for _ in range(3):
        x = net.relu(net.conv(x, channels, 1))
    return naive(net, x)


def depthwise(channels: int = 8, image: int = 9) -> NaiveProgram:
    net = Net()
    x = net.relu(net.depthwise(net.input(1, channels, image, image)))
    return naive(net, net.relu(net.depthwise(x)))


def three(channels: int = 8, image: int = 7) -> NaiveProgram:
    """Return an inverted bottleneck without its addition: three complex operators."""
    net = Net()
    x = net.relu(net.conv(net.input(1, channels, image, image), 2 * channels, 1))
    return naive(net, net.conv(net.relu(net.depthwise(x)), channels, 1))


def attention(tokens: int = 6, width: int = 8) -> NaiveProgram:
    """Return a product, a softmax and a product."""
    net = Net()
    query, key, value = [net.input(tokens, width) for _ in range(3)]
    return naive(net, net.matmul(net.softmax(net.matmul(query, net.transpose(key, 1, 0))), value))


PAIRS: Mapping[str, Callable[[], NaiveProgram]] = {
    "depthwise, pointwise": fused_pair, "pointwise, depthwise": pair_behind, "two pointwise": pointwise,
    "two depthwise": depthwise, "three": three, "attention": attention,
}  # fmt: skip
"""Kernels with several complex operators, small enough to compute."""


def split_of(own: NaiveProgram, view: CpuView = VIEW) -> Split:
    """Return the split of a kernel, with built-in programs for ``view``."""
    costs = CpuCosts(view, own.layer.analysis, "fp32")
    task = task_of(own.layer, costs)
    assert task is not None
    (found,) = splits_of([task], {task.key: costs})
    return found


def search(folder: Path, *splits: Split, options: SearchOptions = OPTIONS) -> Search:
    """Return a search over kernels, each of which is a network."""
    folder.mkdir(exist_ok=True)
    weights = [{number: 1} for number, _ in enumerate(splits)]
    runner, candidates = SimulatedRunner(VIEW, "fp32"), Candidates(folder, "kirin990", "test")
    return Search(splits, weights, runner, candidates, TotalLatency(), options)
