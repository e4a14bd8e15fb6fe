"""Layers that reduce and have no anchor: which passes there are over a tile, and what they move."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Cpu
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.cost.work import kernel_work
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.passes import kept_tensors, passes_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.hw_models.cpu.cpus import cpu
from tests.scheduler.cpu.running import costs_of, planned
from tests.tiers import examples

KINDS = ("Softmax", "LayerNormalization", "InstanceNormalization")
PASSES = {"Softmax": 4, "LayerNormalization": 3, "InstanceNormalization": 3}
"""Maximum, exponential, sum, quotient; mean, deviation, difference."""


def network(kind: str, shape: tuple[int, ...], axis: int) -> Graph:
    net = Net(kind)
    x = net.input(*shape)
    if kind == "Softmax":
        return net.graph(net.softmax(x, axis), dtype="fp32")
    if kind == "LayerNormalization":
        return net.graph(net.layer_norm(x), dtype="fp32")
    scale, bias = net.weight(shape[1]), net.weight(shape[1])
    return net.graph(net.op(kind, [x, scale, bias], shape), dtype="fp32")


def whole_layer(graph: Graph) -> Layer:
    layer = layer_of(Analysis(graph), tuple(range(len(graph.ops))))
    assert layer is not None
    return layer


def moved_bytes(graph: Graph, spec: Cpu) -> dict[str, int]:
    """Return what the network's one kernel moves at each level, caches empty at its beginning."""
    costs = costs_of(graph, spec, threads=1)
    kernel: CpuKernel = planned(costs, "unfused").runs[0]
    (chunk,) = kernel_work(kernel_of(kernel.layer, kernel.steps, 1, "fp32", costs.view)).chunks
    return {name: size for name, size in chunk.payload.traffic if name != "l1"}


class TestWhichTheyAre:
    def test_a_softmax_keeps_its_exponentials(self) -> None:
        layer = whole_layer(network("Softmax", (4, 8, 64), 2))
        found = passes_of(layer)

        assert found is not None
        assert [name.partition(":")[2] for name in kept_tensors(layer)] == ["max", "exp", "sum", ""]
        assert found.of_input == ((0, 1),)
        assert found.of_result == ((0, 1), (1, 2, 3), (2, 3), (3,))
        assert found.of_kept_inside(layer) == (1, 2, 3)

    def test_a_sum_in_front_of_a_normalisation_is_computed_by_each_pass(self) -> None:
        net = Net("residual")
        layer = whole_layer(net.graph(net.layer_norm(net.add(net.input(4, 64), net.input(4, 64))), dtype="fp32"))
        found = passes_of(layer)

        assert found is not None
        assert len(kept_tensors(layer)) == 3
        assert found.of_nest[0] == (0, 1, 2)
        assert found.of_input[:2] == ((0, 1, 2), (0, 1, 2))
        assert [len(each) for each in found.of_nest] == [3, 1, 1, 1]

    def test_special_functions_in_front_of_a_normalisation_are_kept(self) -> None:
        net = Net("activation")
        layer = whole_layer(net.graph(net.layer_norm(net.unary("Tanh", net.input(4, 64))), dtype="fp32"))

        found = passes_of(layer)

        assert found is not None
        assert len(kept_tensors(layer)) == 4
        assert all(len(each) == 1 for each in found.of_nest)

    def test_there_are_none_with_an_anchor_or_without_a_reduction(self) -> None:
        net = Net("product")
        assert passes_of(whole_layer(net.graph(net.relu(net.dense(net.input(4, 64), 32)), dtype="fp32"))) is None
        net = Net("elementwise")
        assert passes_of(whole_layer(net.graph(net.relu(net.input(4, 64)), dtype="fp32"))) is None


class TestWhatTheyMove:
    @given(kind=st.sampled_from(KINDS), axis=st.integers(0, 2), data=st.data())
    @settings(deadline=None, max_examples=examples(40))
    def test_no_more_than_each_pass_uses(self, kind: str, axis: int, data: st.DataObject) -> None:
        """Along any axis, whatever fits: each pass reads or writes two arrays at most, and a kept one comes back."""
        shape = tuple(data.draw(st.sampled_from([1, 3, 16, 100, 4096])) for _ in range(3))
        graph = network(kind, shape, axis)
        lines = max(math.prod(shape), 16 * math.prod(shape[:2]))  # rows shorter than a line take a line

        for size in moved_bytes(graph, cpu()).values():
            assert size <= 2 * PASSES[kind] * 4 * lines + 2**12

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_it_grows_with_what_is_reduced_where_no_level_holds_that(self, kind: str, axis: int) -> None:
        spec = cpu()
        shapes = [tuple(size if dim == axis else 2 for dim in range(3)) for size in (2**22, 2**23)]

        once, twice = (moved_bytes(network(kind, shape, axis), spec) for shape in shapes)

        assert all(twice[name] == pytest.approx(2 * size, rel=0.01) for name, size in once.items())
