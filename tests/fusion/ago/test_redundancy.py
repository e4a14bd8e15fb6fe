"""Redundant computation of intensive fusion, compared with a count element by element, gives the paper's categories."""

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.ago import redundancy, reused_dims, tiled_dims
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Access, LoopNest
from tests.graphs import Net

Element = tuple[int, ...]
Needs = dict[str, set[Element]]


def elements_of(access: Access, place: tuple[int, ...]) -> Iterator[Element]:
    """Yield the elements of its tensor that one iteration of the loops touches."""
    dims: list[list[int]] = []
    for index, size in zip(access.indices, access.shape, strict=True):
        assert not index.opaque
        flat = index.offset + sum(stride * place[loop] for loop, stride in index.terms)
        if index.rounding == "exact" and flat % index.divisor:
            return
        first = flat // index.divisor
        dims.append([element for element in range(first, first + index.window) if 0 <= element < size])
    yield from itertools.product(*dims)


@lru_cache(maxsize=64)
def reads_of(nest: LoopNest) -> dict[Element, set[tuple[str, Element]]]:
    """Return for each written element all that iterations read for it, one iteration after the other."""
    found: dict[Element, set[tuple[str, Element]]] = {}
    for place in itertools.product(*(range(loop.extent) for loop in nest.loops)):
        read = found.setdefault(next(elements_of(nest.write, place)), set())
        read.update((access.tensor, element) for access in nest.reads for element in elements_of(access, place))
    return found


def needed(graph: Graph, upstream: str, tile: set[Element]) -> set[Element]:
    """Return the elements of ``upstream`` that a tile of the network's result needs."""
    first = graph.producer[upstream]
    needs: Needs = {graph.outputs[0]: tile}
    for op in reversed(graph.ops[first + 1 :]):
        for nest in reversed(op.nests):
            reads = reads_of(nest)
            for element in needs.get(nest.write.tensor, set()):
                for name, read in reads[element]:
                    needs.setdefault(name, set()).add(read)
    return needs.get(upstream, set())


def tiles_of(shape: tuple[int, ...], tile: tuple[int, ...]) -> Iterator[set[Element]]:
    for first in itertools.product(*(range(0, size, step) for size, step in zip(shape, tile, strict=True))):
        ranges = (range(lo, min(lo + step, size)) for lo, step, size in zip(first, tile, shape, strict=True))
        yield set(itertools.product(*ranges))


Pair = Callable[[Net], tuple[str, str]]
"""Builds an upstream and a downstream operator; returns the names of their results."""


def after_convolution(downstream: Callable[[Net, str], str]) -> Pair:
    def build(net: Net) -> tuple[str, str]:
        upstream = net.conv(net.input(2, 4, 5, 5), 4, 3)
        return upstream, downstream(net, upstream)

    return build


def after_product(downstream: Callable[[Net, str], str]) -> Pair:
    def build(net: Net) -> tuple[str, str]:
        upstream = net.matmul(net.input(2, 6, 3), net.input(2, 3, 6))
        return upstream, downstream(net, upstream)

    return build


PAIRS: dict[str, tuple[Pair, frozenset[int]]] = {
    "convolution": (after_convolution(lambda net, x: net.conv(x, 4, 3)), frozenset({1, 2, 3})),
    "convolution of groups": (after_convolution(lambda net, x: net.conv(x, 4, 3, groups=2)), frozenset({1, 2, 3})),
    "depthwise": (after_convolution(lambda net, x: net.depthwise(x)), frozenset({2, 3})),
    "depthwise, strided": (after_convolution(lambda net, x: net.depthwise(x, 3, 2)), frozenset({2, 3})),
    "pointwise": (after_convolution(lambda net, x: net.conv(x, 4, 1)), frozenset({1})),
    "pointwise after ReLU": (after_convolution(lambda net, x: net.conv(net.relu(x), 4, 1)), frozenset({1})),
    "patches": (after_convolution(lambda net, x: net.conv(x, 4, 2, 2, pad=0)), frozenset({1})),
    "overlapping pool": (after_convolution(lambda net, x: net.pool(x, 3, 1)), frozenset({2, 3})),
    "pool": (after_convolution(lambda net, x: net.pool(x, 2, 2)), frozenset()),
    "global pool": (after_convolution(lambda net, x: net.global_pool(x)), frozenset()),
    "ReLU": (after_convolution(lambda net, x: net.relu(x)), frozenset()),
    "transpose": (after_convolution(lambda net, x: net.transpose(x, 0, 2, 3, 1)), frozenset()),
    "product, as the left operand": (after_product(lambda net, x: net.matmul(x, net.input(2, 6, 5))), frozenset({2})),
    "product, as the right operand": (after_product(lambda net, x: net.matmul(net.input(2, 5, 6), x)), frozenset({1})),
    "product over other rows": (
        after_product(lambda net, x: net.matmul(net.transpose(x, 0, 2, 1), net.input(2, 6, 4))), frozenset({2}),
    ),
    "softmax": (after_product(lambda net, x: net.softmax(x)), frozenset({2})),
    "normalisation": (after_product(lambda net, x: net.layer_norm(x)), frozenset({2})),
    "mean": (after_product(lambda net, x: net.reduce_mean(x, 1)), frozenset()),
    "centred": (after_product(lambda net, x: net.binary("Sub", x, net.reduce_mean(x, 1))), frozenset({1})),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
class TestPairs:
    def made(self, name: str) -> tuple[Graph, str, tuple[int, ...]]:
        net = Net()
        build, _ = PAIRS[name]
        upstream, result = build(net)
        graph = net.graph(result)
        ops = tuple(range(graph.producer[upstream], len(graph.ops)))
        return graph, upstream, ops

    @pytest.mark.sampled(8)
    def test_reused_dimensions_are_those_where_two_tiles_need_one_element(self, name: str) -> None:
        graph, upstream, ops = self.made(name)
        shape = graph.tensors[graph.outputs[0]].shape
        found = set()
        for dim, size in enumerate(shape):
            tile = tuple(1 if d == dim else s for d, s in enumerate(shape))
            parts = [needed(graph, upstream, part) for part in tiles_of(shape, tile)]
            if size > 1 and sum(map(len, parts)) > len(set().union(*parts)):
                found.add(dim)

        assert reused_dims(Analysis(graph), ops, upstream) == found == PAIRS[name][1]

    @settings(max_examples=5)
    @given(data=st.data())
    def test_elements_computed_are_counted_one_by_one(self, name: str, data: st.DataObject) -> None:
        graph, upstream, ops = self.made(name)
        shape = graph.tensors[graph.outputs[0]].shape
        tile = tuple(data.draw(st.sampled_from([1, 2, size])) for size in shape)
        parts = [needed(graph, upstream, part) for part in tiles_of(shape, tile)]
        found = redundancy(graph, ops, upstream, tile)

        assert found.needed == len(set().union(*parts))
        assert found.computed == sum(map(len, parts))
        assert found.again == found.computed - found.needed

    @settings(max_examples=5)
    @given(data=st.data())
    def test_nothing_is_computed_twice_while_reused_dimensions_are_whole(self, name: str, data: st.DataObject) -> None:
        graph, upstream, ops = self.made(name)
        shape = graph.tensors[graph.outputs[0]].shape
        reused = reused_dims(Analysis(graph), ops, upstream)
        tile = tuple(
            size if dim in reused else data.draw(st.sampled_from([1, 2, size])) for dim, size in enumerate(shape)
        )
        assert redundancy(graph, ops, upstream, tile).again == 0


def test_the_papers_example_recomputes_by_channels_and_by_windows() -> None:
    """Fig. 5: a tile of 1 x 1 x 16 of the second convolution needs O1 x R2 x (15 + C2) elements of the first."""
    net = Net()
    upstream = net.conv(net.input(1, 3, 20, 36), 4, 3, pad=0)
    result = net.conv(upstream, 8, 3, pad=0)
    graph = net.graph(result)
    found = redundancy(graph, (0, 1), upstream, (1, 1, 1, 16))

    assert graph.tensors[result].shape == (1, 8, 16, 32)
    assert found.computed == 8 * 16 * (32 // 16) * 4 * 3 * (15 + 3)
    assert found.needed == 4 * 18 * 34
    assert found.factor == pytest.approx(found.computed / found.needed)


def test_the_two_categories_leave_a_dimension_to_cut_at_batch_one() -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 8, 8), 4)
    depthwise, pointwise, plain = net.depthwise(x), net.conv(x, 4, 1), net.conv(x, 4)
    graph = net.graph(depthwise, pointwise, plain)
    analysis = Analysis(graph)

    assert tiled_dims(analysis, (0, 1), x) == {1}
    assert tiled_dims(analysis, (0, 2), x) == {2, 3}
    assert tiled_dims(analysis, (0, 3), x) == set()
