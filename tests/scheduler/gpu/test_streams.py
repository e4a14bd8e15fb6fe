"""Softmaxes computed for pieces of the keys (FlashAttention): as steps, in the tree, and read off it again."""

import random
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler.gpu.candidates import candidates
from dsascape.scheduler.gpu.checked import checked_steps, gpu_limits
from dsascape.scheduler.gpu.cost.padding import padded
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.streams import softmax_in_front
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import grid_of, program_grid
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Running
from dsascape.workloads import Graph
from tests.scheduler.gpu.test_clusters import TILES, product, whole_layer
from tests.scheduler.kernels.drawn import TOLERANCE, difference, reference_values, varied
from tests.tiers import examples
from tests.workloads.test_masked_attention import attention, network, written_out


def normalised(queries: int, keys: int) -> Graph:
    """Return attention whose results a second softmax reduces."""
    inputs = {"q": [1, 2, queries, 16], "k": [1, 2, keys, 16], "v": [1, 2, keys, 16]}
    nodes = [helper.make_node("Attention", ["q", "k", "v"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    return network(nodes, inputs, {}, ("y",))


def projected(queries: int, keys: int) -> Graph:
    """Return attention over keys that the kernel projects from rows without heads."""
    inputs = {"q": [1, 2, queries, 32], "x": [1, keys, 32], "v": [1, 2, keys, 8]}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Reshape", ["p", "heads"], ["k"]),
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 3, 1]), helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Softmax", ["s"], ["e"]), helper.make_node("MatMul", ["e", "v"], ["y"]),
    ]  # fmt: skip
    return network(nodes, inputs, {"w": np.ones((32, 64), np.float32), "heads": np.array([1, keys, 2, 32])})


VIEW = GpuView(load_hardware("a100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))
GRAPHS = {
    "pieces divide the keys": attention(16, 128), "the last piece is shorter": attention(6, 100),
    "one query": attention(1, 300), "odd numbers of both": attention(17, 90), "written out": written_out(70, "added"),
    "stored caches beside it": attention(6, 80, past=20), "rows that are normalised behind it": normalised(9, 100),
    "keys are projected": projected(7, 90),
}  # fmt: skip


def streamed(layer: Layer, count: int) -> list[GpuTiles]:
    """Return some of the search's tiles that go through the keys piece by piece, the same in every run."""
    every = [each for each in candidates(layer, VIEW) if each.stream is not None]
    return random.Random(0).sample(every, min(count, len(every)))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_results_are_those_of_the_network_and_tiles_are_read_off_the_tree(graph: Graph) -> None:
    graph = graph.with_dtype("fp32")
    layer, network = whole_layer(graph), varied(graph)
    values = reference_values(network)
    for tiles in streamed(layer, examples(8, few=3)):
        steps = padded(layer, steps_of(layer, tiles, VIEW.spec.sms.warp), VIEW)
        program = loop_program(NaiveProgram(layer), steps)

        assert difference(program, layer, network, values) <= TOLERANCE
        assert illegal(program, gpu_limits(VIEW)) == ()
        assert occupancy(VIEW.spec.sms, program_grid(layer, program, VIEW).needs).blocks


def test_steps_say_it_and_survive_their_file() -> None:
    layer = whole_layer(attention(16, 128).with_dtype("fp32"))
    (tiles,) = streamed(layer, 1)
    steps = steps_of(layer, tiles, VIEW.spec.sms.warp)
    softmax = softmax_in_front(layer)
    assert softmax is not None
    (running,) = [step for step in steps if isinstance(step, Running)]
    assert (running.tensor, running.maximum, running.total) == (softmax.rows, softmax.maximum, softmax.total)

    assert checked_steps("steps", layer, read_steps(steps_json(steps)), VIEW) == steps
    whole = steps_of(layer, replace(tiles, stream=None), VIEW.spec.sms.warp)
    own, other = [grid_of(layer, each, VIEW) for each in (steps, whole)]
    assert own.needs.shared_bytes < other.needs.shared_bytes
    assert own.code != other.code


def test_kernels_without_a_softmax_go_through_no_pieces() -> None:
    layer = whole_layer(product(512, 512, 64))
    assert softmax_in_front(layer) is None
    with pytest.raises(StepError, match="has no softmax in front of its last product"):
        steps_of(layer, replace(TILES, stream=32), 32, VIEW.tensor)
