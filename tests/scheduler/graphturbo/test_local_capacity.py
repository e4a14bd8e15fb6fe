"""Local buffers with the same answers to Algorithm 2's capacity requests get the same sub-graphs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.graphturbo.grouping import Grouped, group_subgraphs
from dsascape.scheduler.graphturbo.local_capacity import LocalCapacity
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import networks
from tests.tiers import examples

KIB = 1024
ROOMY = 2**40
MOST_RECOMPUTE = 0.25


def grouped(analysis: Analysis, local_bytes: int) -> tuple[Grouped, ...]:
    return group_subgraphs(analysis, local_bytes, MOST_RECOMPUTE).subgraphs


def test_the_most_that_fits_and_the_least_that_does_not_are_noted() -> None:
    room = LocalCapacity(10)

    assert [room.holds(size_bytes) for size_bytes in (4, 10, 7, 30, 11)] == [True, True, True, False, False]
    assert (room.fitted_bytes, room.refused_bytes) == (10, 11)


def test_where_everything_fits_nothing_is_too_large() -> None:
    room = LocalCapacity(10)
    room.holds(4)

    assert (room.fitted_bytes, room.refused_bytes) == (4, None)


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks(most_blocks=4))
def test_buffers_within_a_grouping_s_bounds_get_equal_groupings(data: st.DataObject, graph: Graph) -> None:
    local_bytes = data.draw(st.sampled_from([64, 512, 4 * KIB, 32 * KIB, ROOMY]))

    found = group_subgraphs(Analysis(graph), local_bytes, MOST_RECOMPUTE)

    assert found.is_for(local_bytes)
    beyond_bytes = 2 * ROOMY if found.refused_bytes is None else found.refused_bytes
    for like_bytes in (found.fitted_bytes, data.draw(st.integers(found.fitted_bytes, beyond_bytes - 1))):
        assert grouped(Analysis(graph), like_bytes) == found.subgraphs
    assert not found.is_for(beyond_bytes) or found.refused_bytes is None


@settings(max_examples=examples(30))
@given(graph=networks(most_blocks=4), tried=st.lists(st.integers(1, 32 * KIB), min_size=2, max_size=8))
def test_groupings_known_of_other_buffers_change_none(graph: Graph, tried: list[int]) -> None:
    analysis = Analysis(graph)

    for local_bytes in tried:
        assert grouped(analysis, local_bytes) == grouped(Analysis(graph), local_bytes)
