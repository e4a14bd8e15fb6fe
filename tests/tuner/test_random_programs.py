"""Whatever is legal compiles and computes the right values: steps drawn at random for kernels with an anchor."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import Group
from dsascape.scheduler.cpu.schedule.steps import cpu_limits, program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.steps import (
    ComputeAt,
    Level,
    Parallel,
    Steps,
    Tile,
    UnrollReduction,
    Vectorise,
)
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.tiers import examples
from tests.tuner.runs import LANES, NARROW, deviations

pytestmark = pytest.mark.tvm


@st.composite
def kernels(draw: st.DrawFn) -> tuple[Graph, LoopTiles]:
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


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=kernels(), data=st.data())
def test_whatever_is_legal_is_right(drawn: tuple[Graph, LoopTiles], data: st.DataObject) -> None:
    graph, tiles = drawn
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    steps = data.draw(changed(steps_of(layer, tiles, LANES), tiles, layer.sink.name))
    try:
        reasons = illegal(program_of(layer, steps, LANES), cpu_limits(NARROW))
    except StepError:
        return
    if not reasons:
        assert max(deviations(plan, {0: steps}).values()) <= KERNEL_TOLERANCE
