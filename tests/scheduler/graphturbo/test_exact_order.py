"""The instance order with the fewest live bytes, and the gap of the heuristics to it."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.graphturbo.exact_order import exact_order
from dsascape.scheduler.graphturbo.ordering import breadth_first, depth_first, peak_live_bytes
from tests.scheduler.graphturbo.test_ordering import dependencies, pyramid
from tests.tiers import examples


def test_figure_7_can_be_had_with_five_images_and_no_fewer() -> None:
    """Depth-first is as good as it gets there: two of each stage above the last, and the one that is computed."""
    producers, images = pyramid(), dict.fromkeys(range(15), 1)

    found = exact_order(breadth_first(range(15), producers), producers, images, effort_s=5)

    assert (found.peak_bytes, found.is_proved) == (5, True)


def test_a_large_output_is_used_up_before_the_next_one_comes() -> None:
    """Two small outputs made of two large inputs: breadth-first holds both large ones at once."""
    producers: dict[int, frozenset[int]] = {
        0: frozenset(), 1: frozenset(), 2: frozenset({0}), 3: frozenset({1}), 4: frozenset({2, 3}),
    }  # fmt: skip
    sizes = {0: 100, 1: 100, 2: 10, 3: 10, 4: 0}
    deep = depth_first([0, 1, 2, 3, 4], producers)
    wide = breadth_first([0, 1, 2, 3, 4], producers)

    assert peak_live_bytes(wide, producers, sizes) == 210
    assert exact_order(wide, producers, sizes, effort_s=5).peak_bytes == 120
    assert peak_live_bytes(deep, producers, sizes) == 120


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_no_permutation_needs_less(data: st.DataObject) -> None:
    producers = data.draw(dependencies(most=6))
    count = len(producers)
    sizes = {i: data.draw(st.integers(0, 5)) for i in range(count)}

    found = exact_order(depth_first(range(count), producers), producers, sizes, effort_s=5)

    place = {instance: position for position, instance in enumerate(found.order)}
    assert sorted(place) == list(range(count))
    assert all(place[p] < place[i] for i in place for p in producers[i])
    assert found.is_proved
    assert peak_live_bytes(found.order, producers, sizes) == found.peak_bytes
    assert found.peak_bytes == min(
        peak_live_bytes(order, producers, sizes)
        for order in permutations(range(count))
        if all(order.index(p) < order.index(i) for i in order for p in producers[i])
    )


def test_with_almost_no_effort_it_is_no_worse_than_its_start() -> None:
    producers, images = pyramid(), dict.fromkeys(range(15), 1)
    wide = breadth_first(range(15), producers)

    found = exact_order(wide, producers, images, effort_s=1e-9)

    assert found.peak_bytes <= 9
    assert found.least_bytes <= found.peak_bytes
