"""Code of grids that go through a softmax's keys piece by piece, its blocks and threads as loops on this machine."""

import random

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")

from dsascape.scheduler.gpu.candidates import candidates
from dsascape.scheduler.gpu.cost.padding import padded
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.codegen.gpu.blocks import gpu_function
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph
from tests.scheduler.gpu.test_clusters import whole_layer
from tests.scheduler.gpu.test_streams import GRAPHS, VIEW
from tests.scheduler.kernels.drawn import varied
from tests.tiers import examples
from tests.tuner.gpu.looped import difference, values_of

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_results_are_right_whichever_thread_comes_first(graph: Graph) -> None:
    graph = graph.with_dtype("fp32")
    layer, network = whole_layer(graph), varied(graph)
    values, warp = values_of(network), VIEW.spec.sms.warp
    every = [each for each in candidates(layer, VIEW) if each.stream is not None]
    for tiles in random.Random(1).sample(every, min(examples(6, few=2), len(every))):
        program = loop_program(NaiveProgram(layer), padded(layer, steps_of(layer, tiles, warp), VIEW))
        for first in ("first", "last"):
            code = gpu_function(layer, network, program, warp, "main", as_loops=first, language="cuda")
            assert difference(code, layer.outputs, graph, values) <= KERNEL_TOLERANCE, (tiles, first)
