"""What a tile needs of a tensor that is read at several places."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.pieces_read import Piece, elements_of, joined, stacked
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Box
from tests.graphs import Net
from tests.scheduler.dsa.products import count_outside, trace
from tests.tiers import examples


def pieces(*intervals: tuple[int, int]) -> tuple[Piece, ...]:
    return tuple(Piece((lo,), (hi - lo,)) for lo, hi in intervals)


class TestJoining:
    @pytest.mark.parametrize(
        ("known", "further", "both"),
        [
            ((0, 4), (0, 4), [(0, 4)]),
            ((0, 4), (1, 3), [(0, 4)]),
            ((0, 4), (1, 5), [(0, 5)]),
            ((0, 4), (4, 6), [(0, 6)]),
            ((0, 4), (8, 12), [(0, 4), (8, 12)]),
        ],
    )
    def test_pieces_that_touch_become_one(
        self, known: tuple[int, int], further: tuple[int, int], both: list[tuple[int, int]]
    ) -> None:
        assert joined(pieces(known), pieces(further)) == pieces(*both)

    def test_a_piece_closes_the_gap_between_two(self) -> None:
        assert joined(pieces((0, 2), (4, 6)), pieces((2, 4))) == pieces((0, 6))

    def test_pieces_side_by_side_in_a_corner_stay_two(self) -> None:
        one, other = Piece((0, 0), (2, 2)), Piece((2, 2), (2, 2))

        assert joined((one,), (other,)) == (one, other)

    def test_what_computes_several_pieces_computes_them_one_beside_the_other(self) -> None:
        assert stacked((Piece((0, 0), (4, 8)), Piece((0, 16), (3, 8)))) == (4, 16)
        assert stacked((Piece((0, 16), (3, 8)),)) == (3, 8)

    def test_no_more_than_the_tensor_is_counted(self) -> None:
        assert elements_of(pieces((-1, 5)), [4]) == 4
        assert elements_of(pieces((0, 3), (5, 8)), [8]) == 6
        assert elements_of(pieces((-8, -4), (0, 4)), [5]) == 5


def gated() -> Graph:
    """A gated linear unit of 16 channels over 10 tokens."""
    net = Net()
    x = net.input(1, 32, 10)
    gate = net.unary("Sigmoid", net.part(x, 1, 16, 32))
    return net.graph(net.binary("Mul", net.part(x, 1, 0, 16), gate))


def neighbours() -> Graph:
    """Every token beside the one before and the one behind it."""
    net = Net()
    x = net.input(1, 12, 4)
    return net.graph(net.concat(*(net.part(x, 1, begin, begin + 10) for begin in range(3)), axis=2))


def shortcut() -> Graph:
    """A convolution of three rows, whose operand is added to what it gives."""
    net = Net()
    x = net.input(1, 4, 12, 12)
    return net.graph(net.add(net.conv(x, 4, 3), x))


def ends_of_rows() -> Graph:
    """The first two and the last two columns of a product, side by side."""
    net = Net()
    y = net.dense(net.input(12, 6), 8)
    return net.graph(net.concat(net.part(y, 1, 0, 2), net.part(y, 1, 6, 8), axis=1))


@pytest.mark.parametrize(
    ("graph", "tile", "elements"),
    [
        (gated(), (1, 4, 5), 2 * 4 * 5),
        (gated(), (1, 16, 10), 32 * 10),
        (neighbours(), (1, 4, 12), (4 + 2) * 4),
        (neighbours(), (1, 10, 12), 12 * 4),
        (shortcut(), (1, 4, 4, 12), 4 * 6 * 12),
    ],
)
def test_operands_are_counted_once_wherever_they_are_read(graph: Graph, tile: tuple[int, ...], elements: int) -> None:
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None

    assert layer.tile_work(tile).operand_bytes["in1"] == elements * 2


def test_what_is_computed_at_two_places_is_computed_twice() -> None:
    graph = ends_of_rows()
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None

    product = layer.tile_work((5, 4)).nests[0]

    assert product.operations.macs == 5 * 4 * 6
    assert product.matrix_shape == (5, 4, 6, 1, 6, 5)


@settings(max_examples=examples(100))
@given(data=st.data(), graph=st.sampled_from([gated(), neighbours(), shortcut(), ends_of_rows()]))
def test_a_tile_anywhere_needs_no_more_than_is_counted(data: st.DataObject, graph: Graph) -> None:
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    tile = tuple(data.draw(st.integers(1, size)) for size in layer.sink.shape)
    first = [data.draw(st.integers(0, whole - size)) for whole, size in zip(layer.sink.shape, tile, strict=True)]
    part: Box = tuple((lo, lo + size) for lo, size in zip(first, tile, strict=True))

    work = layer.tile_work(tile)

    nests = [nest for op in layer.ops if not graph.ops[op].is_view for nest in graph.ops[op].nests]
    assert [each.nest for each in work.nests] == nests
    traced = trace([nest for op in layer.ops for nest in graph.ops[op].nests], layer.sink.name, part)
    for name in layer.inputs:
        needed = count_outside(traced.products.get(name, ()), [], graph.tensors[name].shape)
        assert needed * graph.tensors[name].element_bytes <= work.operand_bytes.get(name, 0), name
