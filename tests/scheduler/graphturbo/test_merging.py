"""The properties of merged pieces equal those found by a walk over all their operators."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_of, fixed_pattern_plan
from dsascape.scheduler.graphturbo.grouping import layer_piece, tensors_inside
from dsascape.scheduler.graphturbo.merging import MergedPiece
from dsascape.scheduler.graphturbo.pieces import Piece, operators
from dsascape.scheduler.graphturbo.splitting import Splittable
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.tiers import examples


def layer_pieces(analysis: Analysis) -> list[Piece]:
    return [layer_piece(analysis, number) for number in range(len(analysis.of(fixed_pattern_of).groups))]


def definition(analysis: Analysis, piece: Piece) -> Splittable:
    return Splittable(analysis.graph, operators(piece), analysis, tensors_inside(fixed_pattern_plan(analysis.graph)))


def sources_of(graph: Graph, target: Piece, others: list[Piece], data: st.DataObject) -> list[Piece]:
    """Draw pieces whose one output is read by the target, or by others that were drawn, and by nobody else."""
    inside = set(operators(target))
    sources = []
    for piece in sorted(others, key=lambda piece: -piece.last):
        readers = graph.consumers[piece.sink.name]
        closed = piece.has_single_output and piece.sink.name not in graph.outputs and inside.issuperset(readers)
        if closed and data.draw(st.integers(0, 3)):
            sources.append(piece)
            inside.update(operators(piece))
    return sources


def assert_equal(piece: Piece, whole: Splittable) -> None:
    assert (piece.size, piece.sink, piece.has_single_output) == (len(whole.ops), whole.sink, whole.has_single_output)
    assert (piece.weights.size_bytes, piece.inner_bytes) == (whole.weight_bytes, whole.inner_bytes)
    assert piece.alive_bytes() == whole.alive_bytes()
    for dim in range(len(whole.sink.shape)):
        for factor in (2, 3, 8):
            assert piece.alive_bytes(dim, factor) == whole.alive_bytes(dim, factor)
            assert piece.operators_split(dim, factor) == whole.operators_split(dim, factor)
            assert piece.recompute_share(dim, factor) == whole.recompute_share(dim, factor)


@st.composite
def tangled_networks(draw: st.DrawFn) -> Graph:
    """Draw a network in which any operator reads any earlier tensor: paths alternate, weights and views are shared."""
    net = Net("tangled")
    shape = (2, 4, 6, 6)
    viewed = net.input(2, 2)
    weights = [net.weight(4, 1, 1), net.reshape(viewed, 4, 1, 1), net.reshape(viewed, 1, 4, 1, 1)]
    made = [net.input(*shape), net.input(*shape)]
    for _ in range(draw(st.integers(3, 14))):
        x = draw(st.sampled_from(made[-5:]))
        made.append(draw(st.sampled_from(TANGLING))(net, draw, x, made, weights))
    graph = net.graph(*dict.fromkeys([made[-1], draw(st.sampled_from(made[2:]))]))
    return with_weight(graph, viewed) if viewed in graph.inputs and draw(st.booleans()) else graph


def with_weight(graph: Graph, name: str) -> Graph:
    """Return ``graph`` with an input that is a weight instead: importing a file leaves no views of weights."""
    tensors = {**graph.tensors, name: replace(graph.tensors[name], role="weight")}
    return replace(graph, tensors=tensors, inputs=tuple(each for each in graph.inputs if each != name))


Tangling = Callable[[Net, st.DrawFn, str, list[str], list[str]], str]
TANGLING: tuple[Tangling, ...] = (
    lambda net, draw, x, made, weights: net.relu(x),
    lambda net, draw, x, made, weights: net.conv(x, 4, draw(st.sampled_from([1, 3]))),
    lambda net, draw, x, made, weights: net.add(x, draw(st.sampled_from(made))),
    lambda net, draw, x, made, weights: net.binary("Mul", x, draw(st.sampled_from(weights))),
    lambda net, draw, x, made, weights: net.softmax(x, 2),
    lambda net, draw, x, made, weights: net.transpose(x, 0, 1, 3, 2),
    lambda net, draw, x, made, weights: net.reshape(net.reshape(x, 2, 4, 36), 2, 4, 6, 6),
    lambda net, draw, x, made, weights: net.reshape(x, 2, 4, 6, 6),
)


@settings(max_examples=examples(150))
@given(data=st.data(), graph=networks(most_blocks=6) | tangled_networks())
def test_a_merged_piece_answers_as_a_walk_over_its_operators_does(data: st.DataObject, graph: Graph) -> None:
    analysis = Analysis(graph)
    pieces = layer_pieces(analysis)
    asks_early = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(1, 6))):
        target = data.draw(st.sampled_from(pieces))
        sources = sources_of(graph, target, [piece for piece in pieces if piece is not target], data)
        if sources:
            whole = MergedPiece(sources, target)
            pieces = [whole, *(piece for piece in pieces if piece is not target and piece not in sources)]
            if asks_early:
                assert_equal(whole, definition(analysis, whole))

    for piece in pieces:
        assert_equal(piece, definition(analysis, piece))


def test_a_question_may_be_asked_for_the_first_time_after_a_thousand_merges() -> None:
    net = Net("chain")
    x = net.input(8, 4, 8, 8)
    for _ in range(1100):
        x = net.conv(x, 4)
    analysis = Analysis(net.graph(x))
    piece, *others = layer_pieces(analysis)
    for other in others:
        piece = MergedPiece([piece], other)
    whole = definition(analysis, piece)

    assert piece.alive_bytes(2, 4) == whole.alive_bytes(2, 4)
    assert piece.operators_split(2, 4) == whole.operators_split(2, 4)
    assert piece.recompute_share(2, 4) == whole.recompute_share(2, 4) > 0


def test_what_waits_beside_the_operators_of_another_path_is_counted() -> None:
    """Two paths whose operators alternate: where one path holds two tensors, the other's waits beside them."""
    net = Net("ladder")
    left = right = net.input(1, 4, 8, 8)
    for _ in range(3):
        left, right = net.conv(left, 4), net.conv(right, 4)
    pieces = {piece.sink.name: piece for piece in layer_pieces(Analysis(net.graph(net.add(left, right))))}
    target, path = pieces.pop("add1"), MergedPiece([pieces.pop("conv1")], pieces.pop("conv3"))
    tensor_bytes = 4 * 8 * 8 * 2

    assert path.alive_bytes() == 2 * tensor_bytes
    assert MergedPiece([path, *pieces.values()], target).alive_bytes() == 3 * tensor_bytes
