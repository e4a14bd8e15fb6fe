"""Small kernels with loops drawn at random, and what their networks compute: without a compiler."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import as_it_runs, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu import schedule as of_gpu
from dsascape.scheduler.gpu.cost.padding import with_rows
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.steps import steps_of as steps_of_grid
from dsascape.scheduler.gpu.tiles import FrontTiles, GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of, only_convolution
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.interpreter import interpret
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.observed import Observer
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Level,
    Parallel,
    RowPadding,
    Steps,
    Tile,
    UnrollReduction,
    Vectorise,
)
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import computed_elements
from dsascape.workloads.executable import Executable, drawn_inputs, executable
from dsascape.workloads.nest_by_nest import written_out
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.winograd.values import executable_written_out
from tests.graphs import Net
from tests.hw_models.cpu.cpus import cpu

NARROW = CpuView(cpu(), CpuTuning(chunks_per_thread=1))
"""A machine with short vectors, on which small networks have several tiles."""
LANES = NARROW.lanes("fp32")
GRID = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))
TOLERANCE = 1e-4
"""Of what is computed in single precision in another order, relative to the largest number that it is made of."""


def varied(graph: Graph) -> Executable:
    """Return the network with another value in every element of its weights, between 0.5 and 1.5."""
    found = executable(graph)
    generator = np.random.default_rng(0)
    values = {
        name: generator.uniform(0.5, 1.5, value.shape).astype(value.dtype) if value.dtype == np.float32 else value
        for name, value in found.values.items()
    }
    return replace(found, values=values)


def reference_values(network: Executable) -> dict[str, Array]:
    """Return every tensor of a network, as ONNX's own evaluator of operators computes it."""
    inputs, names = drawn_inputs(network.graph), list(network.graph.producer)
    model = network.model(names)
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(model).run(None, inputs)
    found = dict(zip([each.name for each in model.graph.output], map(np.asarray, results), strict=True))
    return {**network.values, **inputs, **found}


def difference(
    program: LoopProgram, layer: Layer, network: Executable, values: Mapping[str, Array],
    observer: Observer | None = None,
) -> float:  # fmt: skip
    """Return by how much the results of ``program`` differ from ``values``, relative to the largest number there is."""
    with np.errstate(all="ignore"):
        found = interpret(program, layer, network, values, observer)
    made_of, worst = max([_largest(values[name]) for name in layer.inputs]), 0.0
    for name, got in found.items():
        computed, wanted = computed_elements(layer.graph, name), values[name]
        own = got if computed is None else np.where(computed, got, wanted)
        with np.errstate(invalid="ignore"):
            apart = np.where(own == wanted, 0, np.abs(own.astype(np.float64) - wanted.astype(np.float64)))
        is_wrong = bool(np.isnan(apart).any())
        worst = max(worst, float("inf") if is_wrong else float(apart.max()) / max(_largest(wanted), made_of))
    return worst


def _largest(value: Array) -> float:
    """Return the largest magnitude of finite numbers, at least 1 for those that are no floating-point numbers."""
    finite = np.abs(value[np.isfinite(value)]) if value.dtype.kind == "f" else np.ones(1)
    return max(float(finite.max(initial=0.0)), 1e-30)


def cpu_programs(
    graph: Graph, network: Executable | None = None
) -> Iterator[tuple[LoopProgram, Layer, Executable]]:
    """Yield the built-in choice of each kernel of a network on a CPU, convolutions written out where it has them so.

    ``network``: with the weights to compute with; None: with various ones.
    """
    schedule = as_it_runs(kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(NARROW, Analysis(graph), "fp32")))
    analysis = Analysis(schedule.plan.graph)
    network = varied(schedule.plan.graph) if network is None else network
    algorithms = frozenset([
        (op, each.algorithm) for place, each in schedule.chosen.items()
        if each.algorithm and (op := only_convolution(analysis, schedule.plan.groups[place].ops)) is not None
    ])  # fmt: skip
    out = written_out(analysis, algorithms=algorithms) if algorithms else None
    network = network if out is None else executable_written_out(network, out, algorithms)
    for kernel in schedule.runs:
        yield kernel.program, kernel.layer, network


def grid_programs(graph: Graph) -> Iterator[tuple[LoopProgram, Layer, Executable]]:
    """Yield the built-in choice of each kernel of a network on a GPU."""
    network = varied(graph)
    for kernel in of_gpu.kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(GRID, Analysis(graph))).runs:
        yield kernel.program, kernel.layer, network


def whole_layer(graph: Graph) -> Layer:
    """Return a network as one kernel."""
    found = layer_of(Analysis(graph), range(len(graph.ops)))
    assert found is not None
    return found


@st.composite
def anchored(draw: st.DrawFn) -> tuple[Graph, LoopTiles]:
    """Draw a convolution or a product with what may follow it, and tiles of it of any sizes."""
    net = Net()
    if draw(st.booleans()):
        channels = draw(st.integers(1, 20))
        x = net.conv(net.input(1, draw(st.integers(1, 9)), 9, 7), channels, draw(st.sampled_from([1, 3])))
    else:
        x = net.dense(net.input(draw(st.integers(1, 12)), draw(st.integers(2, 12))), draw(st.integers(2, 20)))
    x = net.relu(x) if draw(st.booleans()) else x
    x = net.unary("Tanh", x) if draw(st.booleans()) else x
    graph = net.graph(x, dtype="fp32")
    sink = graph.tensors[x]
    vector_dim = next(dim for dim in reversed(sink.order) if sink.shape[dim] > 1)
    register = [draw(st.integers(1, min(size, 4))) for size in sink.shape]
    register[vector_dim] = LANES * draw(st.integers(1, 3))
    tile = [part * draw(st.integers(1, -(-size // part))) for size, part in zip(sink.shape, register, strict=True)]
    order = draw(st.permutations(range(len(register))))
    parallel = draw(st.integers(0, len(register)))
    return graph, LoopTiles(tuple(tile), tuple(order), parallel, tuple(register), vector_dim, None)


@st.composite
def changed(draw: st.DrawFn, steps: Steps, tiles: LoopTiles, sink: str) -> Steps:
    """Draw changes of steps: a level of tiles more, other lanes, other depths of copies, no threads."""
    found = list(steps)
    if draw(st.booleans()):
        order = draw(st.permutations(range(len(tiles.tile))))
        parts = [-(-whole // part) for whole, part in zip(tiles.tile, tiles.register, strict=True)]
        factors = [draw(st.integers(1, most)) for most in parts]
        level = Level("space", tuple(order), tuple([tiles.register[dim] * factors[dim] for dim in order]))
        for place, step in enumerate(found):
            if isinstance(step, Tile) and step.stage == sink:
                found[place] = replace(step, levels=(step.levels[0], level, *step.levels[1:]))
            elif isinstance(step, ComputeAt) and step.scope == "register":
                found[place] = replace(step, loops=step.loops + len(order))
    for place, step in enumerate(found):
        if isinstance(step, ComputeAt) and step.scope == "stack":
            found[place] = replace(step, loops=draw(st.integers(0, step.loops)))
        elif isinstance(step, Vectorise) and step.ends == "dividing":
            found[place] = replace(step, lanes=draw(st.sampled_from([1, 2, 4, 8])))
        elif isinstance(step, Parallel) and draw(st.booleans()):
            found[place] = replace(step, loops=0)
    sums = next((step.stage for step in found if step.stage.endswith(".sum")), "")
    if sums and draw(st.booleans()):
        found.append(UnrollReduction(sums, draw(st.integers(2, 4))))
    return tuple(found)


GRIDS: Mapping[str, Callable[[Net], str]] = {
    "convolution": lambda net: net.relu(net.conv(net.input(1, 5, 6, 5), 4)),
    "product": lambda net: net.relu(net.dense(net.input(1, 7, 18), 10)),
    "softmax": lambda net: net.softmax(net.input(2, 3, 19)),
    "normalisation": lambda net: net.layer_norm(net.input(2, 3, 17)),
    "two convolutions": lambda net: net.conv(net.relu(net.conv(net.input(1, 3, 5, 4), 3)), 4, 1),
    "pointwise, then depthwise": lambda net: net.depthwise(net.relu(net.conv(net.input(1, 3, 5, 4), 5, 1))),
    "mean of an image": lambda net: net.relu(net.global_pool(net.input(1, 3, 9, 11))),
    "sum of all": lambda net: net.op("ReduceSum", [net.input(5, 17)], (), keepdims=0),
}
"""Kernels that tiles of grids are drawn for."""


Rows = tuple[RowPadding | None, ...]
"""Padding of the rows of a last product's copies, by operand; empty: rows follow each other."""


@st.composite
def any_tiles(draw: st.DrawFn, names: Sequence[str] = tuple(sorted(GRIDS))) -> tuple[str, GpuTiles, Rows]:
    """Draw a kernel of `GRIDS`, and tiles for it that nobody would choose, with the padding of rows of its copies."""
    name = draw(st.sampled_from(names))
    net = Net()
    layer = whole_layer(net.graph(GRIDS[name](net), dtype="fp32"))
    shape = layer.sink.shape
    tile = tuple(draw(st.integers(1, size)) for size in shape)
    part = tuple(draw(st.integers(1, size)) for size in tile)
    order = tuple(draw(st.permutations(range(len(shape)))))
    nests = nests_of(layer)
    depth_step = draw(st.one_of(st.none(), st.integers(1, 9))) if nests.anchor_ends_last else None
    fronts = tuple(
        FrontTiles(
            tuple(draw(st.integers(1, 3)) for _ in nests.nests[number].compiled.nest.write.shape),
            draw(st.one_of(st.none(), st.integers(1, 5))), "lanes",
        )
        for number in nests.fronts
    )  # fmt: skip
    split, stages = draw(st.sampled_from([1, 1, 2, 3, 7])), draw(st.integers(1, 4))
    padded = depth_step is not None and draw(st.booleans())
    rows = tuple([draw(any_rows(len(read.order))) for read in nests.nests[nests.anchor].reads[:2]]) if padded else ()
    shares = draw(st.sampled_from([1, 1, 2, 3])) if nests.reduction >= 0 and depth_step is None else 1
    return name, GpuTiles(tile, order, part, split, depth_step, stages, "lanes", shares, fronts), rows


def grid_program(layer: Layer, tiles: GpuTiles, warp: int, rows: Rows = ()) -> LoopProgram:
    """Return the loops of ``tiles``, with rows of the copies of the last product's operands padded."""
    steps, nests = steps_of_grid(layer, tiles, warp), nests_of(layer)
    padded: dict[str, RowPadding | None] = {}
    if any(rows):
        own = [each.nest for each in reversed(layer.nests) if not each.is_view][nests.anchor]
        by_tensor = dict(zip([read.tensor for read in own.reads[:2]], rows, strict=True))
        padded = {
            step.stage: by_tensor[step.tensor] for step in steps
            if isinstance(step, CacheRead) and step.reader == f"{own.write.tensor}.sum"
        }  # fmt: skip
    return loop_program(NaiveProgram(layer), with_rows(steps, padded))


def any_rows(rank: int) -> st.SearchStrategy[RowPadding | None]:
    """Draw the padding of rows of a copy, or none."""
    return st.one_of(st.none(), st.builds(RowPadding, st.integers(1, 5), st.integers(1, rank)))
