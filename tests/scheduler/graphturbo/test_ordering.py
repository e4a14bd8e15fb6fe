"""Algorithm 3: the breadth-first and depth-first orders and their live bytes, and heaviest first."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.graphturbo.ordering import (
    breadth_first,
    depth_first,
    depth_first_steps,
    heaviest_first,
    peak_live_bytes,
)
from tests.tiers import examples

STAGES = {"a": 8, "b": 4, "c": 2, "d": 1}
INSTANCES = [f"{stage}{number}" for stage, count in STAGES.items() for number in range(1, count + 1)]
"""Fig. 6's, in breadth-first order."""


def pyramid() -> dict[int, frozenset[int]]:
    """Return Fig. 6's black edges: each instance uses two of the stage before."""
    number = {name: place for place, name in enumerate(INSTANCES)}
    found: dict[int, frozenset[int]] = {}
    for name, place in number.items():
        before, index = chr(ord(name[0]) - 1), int(name[1:])
        inputs = (f"{before}{2 * index - 1}", f"{before}{2 * index}")
        found[place] = frozenset(number[i] for i in inputs if i in number)
    return found


def named(order: list[int]) -> str:
    return " ".join(INSTANCES[place] for place in order)


@st.composite
def dependencies(draw: st.DrawFn, most: int = 12) -> dict[int, frozenset[int]]:
    count = draw(st.integers(1, most))
    return {i: frozenset(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else frozenset() for i in range(count)}


def live_bytes(order: list[int], producers: Mapping[int, frozenset[int]], sizes: Mapping[int, int]) -> int:
    """Return the peak by looking at every step which outputs are there and still (or never) read."""
    readers = {i: [j for j in order if i in producers[j]] for i in order}
    most = 0
    for step in range(len(order)):
        there = order[: step + 1]
        later = set(order[step:])
        most = max(most, sum(sizes[i] for i in there if not readers[i] or later & set(readers[i]) or i == order[step]))
    return most


class TestFigure7:
    def test_breadth_first_goes_stage_by_stage(self) -> None:
        assert named(breadth_first(range(15), pyramid())) == "a1 a2 a3 a4 a5 a6 a7 a8 b1 b2 b3 b4 c1 c2 d1"

    def test_depth_first_takes_the_last_instance_that_is_ready(self) -> None:
        assert named(depth_first(range(15), pyramid())) == "a8 a7 b4 a6 a5 b3 c2 a4 a3 b2 a2 a1 b1 c1 d1"

    def test_the_lists_change_as_in_the_figures_steps(self) -> None:
        """Figs. 7b to 7e: visit, ready and order."""
        steps = [
            (named(list(lists.visit)), named(list(lists.ready)), named(lists.order))
            for lists in depth_first_steps(range(15), pyramid())
        ]

        assert steps[:4] == [
            ("b1 b2 b3 b4 c1 c2 d1", "a1 a2 a3 a4 a5 a6 a7 a8", ""),
            ("b1 b2 b3 c1 c2 d1", "a1 a2 a3 a4 a5 a6 a7 b4", "a8"),
            ("b1 b2 b3 c1 c2 d1", "a1 a2 a3 a4 a5 a6 b4", "a8 a7"),
            ("b1 b2 b3 c1 d1", "a1 a2 a3 a4 a5 a6 c2", "a8 a7 b4"),
        ]
        assert len(steps) == 1 + 15

    def test_depth_first_has_the_shape_of_figure_3b(self) -> None:
        stages = "".join(INSTANCES[place][0] for place in depth_first(range(15), pyramid()))

        assert stages == "aab" + "aab" + "c" + "aab" + "aab" + "c" + "d"

    def test_depth_first_keeps_half_as_much_alive(self) -> None:
        producers, images = pyramid(), dict.fromkeys(range(15), 1)

        assert peak_live_bytes(breadth_first(range(15), producers), producers, images) == 9
        assert peak_live_bytes(depth_first(range(15), producers), producers, images) == 5

    @given(sizes=st.tuples(*[st.integers(1, 100)] * 4))
    def test_depth_first_never_keeps_more_alive(self, sizes: tuple[int, int, int, int]) -> None:
        producers = pyramid()
        of_stage = dict(zip(STAGES, sizes, strict=True))
        output_bytes = {place: of_stage[name[0]] for place, name in enumerate(INSTANCES)}
        deep, wide = (order(range(15), producers) for order in (depth_first, breadth_first))

        assert peak_live_bytes(deep, producers, output_bytes) <= peak_live_bytes(wide, producers, output_bytes)


def heaviest(visit: range, producers: Mapping[int, frozenset[int]]) -> list[int]:
    """Order by footprints that grow with the instance's number."""
    return heaviest_first(visit, producers, {i: i + 1 for i in producers})


@pytest.mark.parametrize("order", [breadth_first, depth_first, heaviest])
class TestEveryOrder:
    @settings(max_examples=examples(100))
    @given(producers=dependencies())
    def test_every_instance_runs_once_after_what_it_uses(
        self, order: object, producers: dict[int, frozenset[int]]
    ) -> None:
        assert callable(order)
        found = order(range(len(producers)), producers)

        assert sorted(found) == list(producers)
        place = {instance: position for position, instance in enumerate(found)}
        assert all(place[before] < place[after] for after in producers for before in producers[after])

    def test_instances_that_wait_for_each_other_are_named(self, order: object) -> None:
        assert callable(order)
        with pytest.raises(ValueError, match=r"instances \[0, 1\] wait for each other in a cycle"):
            order(range(2), {0: frozenset({1}), 1: frozenset({0})})


@settings(max_examples=examples(100))
@given(data=st.data(), producers=dependencies())
def test_peak_live_bytes_is_what_looking_at_every_step_gives(
    data: st.DataObject, producers: dict[int, frozenset[int]]
) -> None:
    sizes = {i: data.draw(st.integers(1, 9)) for i in producers}
    order = depth_first(range(len(producers)), producers)

    assert peak_live_bytes(order, producers, sizes) == live_bytes(order, producers, sizes)


class TestHeaviestFirst:
    def test_an_instance_that_reads_much_comes_before_one_that_starts_anew(self) -> None:
        images = dict.fromkeys(range(15), 1)

        assert named(heaviest_first(range(15), pyramid(), images)).startswith("a1 a2 b1 a3 a4 b2 c1 a5")

    def test_of_equals_the_first_in_the_visit_comes_first(self) -> None:
        alone: dict[int, frozenset[int]] = dict.fromkeys(range(3), frozenset())

        assert heaviest_first([2, 0, 1], alone, dict.fromkeys(range(3), 7)) == [2, 0, 1]
