"""Pieces that were merged know what a walk over all their operators finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.fixed_pattern import fixed_pattern_of, fixed_pattern_plan
from scheduler.graphturbo.grouping import layer_piece, tensors_inside
from scheduler.graphturbo.merging import MergedPiece
from scheduler.graphturbo.pieces import Piece, operators
from scheduler.graphturbo.splitting import Splittable
from tests.graphs import Net, networks
from workloads import Graph
from workloads.analysis import Analysis


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


@settings(max_examples=120)
@given(data=st.data(), graph=networks(most_blocks=6))
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
