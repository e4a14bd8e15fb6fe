"""The lattice of tilings: neighbours of a point, and the number of tiles of each."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.scheduler.dsa.tiling.lattice import Halvings, Lattice


def finer_ones(lattice: Lattice, halvings: Halvings) -> list[Halvings]:
    return [way.halvings for way in lattice.finer(lattice.at(halvings))]


def test_seven_rows_halved_twice_make_four_tiles_of_two() -> None:
    way = Lattice((7, 12, 10)).at((2, 0, 0))

    assert (way.tile, way.depth) == ((2, 12), None)
    assert (way.tiles, way.passes) == (4, 4)


def test_a_depth_that_is_halved_is_walked_in_steps_for_each_tile() -> None:
    way = Lattice((7, 12, 10)).at((1, 0, 1))

    assert (way.tile, way.depth) == ((4, 12), 5)
    assert (way.tiles, way.passes) == (2, 4)


def test_single_elements_are_not_halved() -> None:
    assert Lattice((5, 1)).limits == (3, 0)
    assert finer_ones(Lattice((5, 1)), (2, 0)) == [(3, 0)]
    assert finer_ones(Lattice((5, 1)), (3, 0)) == []


def test_without_trades_only_finer_ones_are_near() -> None:
    lattice = Lattice((8, 8))
    way = lattice.at((1, 1))

    assert list(lattice.near(way, trades=False)) == list(lattice.finer(way)) == [lattice.at((2, 1)), lattice.at((1, 2))]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
def test_near_is_what_one_halving_one_doubling_or_both_lead_to(extents: list[int], data: st.DataObject) -> None:
    """A dimension doubled is so once, or all the way."""
    lattice = Lattice(tuple(extents))
    ranges = [range(limit + 1) for limit in lattice.limits]
    here = tuple(data.draw(st.sampled_from(each)) for each in ranges)

    def is_near(there: Halvings) -> bool:
        steps = [(before, after) for before, after in zip(here, there, strict=True) if before != after]
        up = [after - before for before, after in steps if after > before]
        down = [(before, after) for before, after in steps if after < before]
        return sum(up) <= 1 and len(down) <= 1 and all(after in (before - 1, 0) for before, after in down)

    def is_emptied_and_halved(there: Halvings) -> bool:
        """Whether one dimension was doubled all the way, and then halved itself."""
        steps = [(before, after) for before, after in zip(here, there, strict=True) if before != after]
        return len(steps) == 1 and steps[0][1] == 1 and steps[0][0] > 1

    near = [way.halvings for way in lattice.near(lattice.at(here), trades=True)]
    expected = {there for there in product(*ranges) if is_near(there) or is_emptied_and_halved(there)} - {here}
    assert len(near) == len(set(near))
    assert set(near) == expected


@pytest.mark.parametrize("count", [10, 5_000])
def test_a_lattice_with_many_ways_forgets_them(count: int) -> None:
    lattice = Lattice((2**count,))
    first = lattice.at((0,))
    for times in range(count):
        lattice.at((times,))
    lattice.forget()

    assert (lattice.at((0,)) is first) == (count == 10)
