"""Tensors are split evenly over cores, outermost dimensions first; a core fetches what it lacks from others."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.dsa.placing.binding import Binding, needed_and_held, plain_binding, sample_cores
from dsascape.workloads import Box
from dsascape.workloads.loopnest import intersect
from tests.tiers import examples

Element = tuple[int, ...]


def elements(box: Box) -> set[Element]:
    return set(itertools.product(*(range(lo, hi) for lo, hi in box)))


@st.composite
def bindings(draw: st.DrawFn, rank: int) -> Binding:
    factors = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    return Binding(tuple(factors), tuple(draw(st.permutations(range(rank)))))


@st.composite
def boxes(draw: st.DrawFn, rank: int, most: int = 7) -> Box:
    starts = draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    return tuple((lo, lo + draw(st.integers(1, most))) for lo in starts)


class TestPlainBinding:
    @pytest.mark.parametrize(
        ("shape", "factors"),
        [
            ((8, 28, 28, 512), (8, 1, 1, 1)),
            ((4, 28, 28, 512), (4, 2, 1, 1)),
            ((2, 28, 28, 512), (2, 4, 1, 1)),
            ((1, 28, 28, 512), (1, 4, 2, 1)),
            ((1, 7, 7, 512), (1, 1, 1, 8)),
            ((6, 14, 7, 5), (2, 2, 1, 1)),
            ((1, 7, 7, 5), (1, 1, 1, 1)),
            ((16, 3), (8, 1)),
        ],
    )
    def test_eight_cores_take_8_4_2_or_1_parts_from_the_outermost_dimension_on(
        self, shape: tuple[int, ...], factors: tuple[int, ...]
    ) -> None:
        assert plain_binding(shape, range(len(shape)), 8).factors == factors

    def test_the_outermost_dimension_in_memory_comes_first(self) -> None:
        assert plain_binding((1, 64, 28, 28), (0, 2, 3, 1), 8).factors == (1, 1, 4, 2)

    @pytest.mark.parametrize(
        ("shape", "factors"), [((12, 5), (6, 1)), ((4, 9), (2, 3)), ((9, 4), (3, 2)), ((5, 7), (1, 1))]
    )
    def test_six_cores_take_their_divisors(self, shape: tuple[int, ...], factors: tuple[int, ...]) -> None:
        assert plain_binding(shape, (0, 1), 6).factors == factors

    @settings(max_examples=examples(100))
    @given(shape=st.lists(st.integers(1, 24), min_size=1, max_size=4), cores=st.integers(1, 12))
    def test_parts_are_equal_and_no_more_than_the_cores(self, shape: list[int], cores: int) -> None:
        binding = plain_binding(shape, range(len(shape)), cores)

        assert binding.cores <= cores
        assert all(size % factor == 0 for size, factor in zip(shape, binding.factors, strict=True))
        assert binding.part_extents(shape) == tuple(s // f for s, f in zip(shape, binding.factors, strict=True))


class TestPart:
    def test_cores_are_numbered_with_the_outermost_dimension_slowest(self) -> None:
        binding = Binding((2, 2), (1, 0))

        assert [binding.part(((0, 4), (0, 6)), core) for core in range(4)] == [
            ((0, 2), (0, 3)),
            ((2, 4), (0, 3)),
            ((0, 2), (3, 6)),
            ((2, 4), (3, 6)),
        ]

    @settings(max_examples=examples(100))
    @given(data=st.data(), rank=st.integers(1, 3))
    def test_every_element_belongs_to_one_core(self, data: st.DataObject, rank: int) -> None:
        binding, box = data.draw(bindings(rank)), data.draw(boxes(rank))
        parts = [binding.part(box, core) for core in range(binding.cores)]

        assert sum(len(elements(part)) for part in parts) == len(elements(box))
        assert set().union(*map(elements, parts)) == elements(box)

    @settings(max_examples=examples(100))
    @given(data=st.data(), rank=st.integers(1, 3))
    def test_parts_are_of_one_size_exactly_when_the_factors_divide(self, data: st.DataObject, rank: int) -> None:
        binding, box = data.draw(bindings(rank)), data.draw(boxes(rank))
        sizes = {tuple(hi - lo for lo, hi in binding.part(box, core)) for core in range(binding.cores)}
        divides = all((hi - lo) % factor == 0 for (lo, hi), factor in zip(box, binding.factors, strict=True))

        assert (len(sizes) == 1) == divides


class TestNeededAndHeld:
    @pytest.mark.parametrize(
        ("core", "rows", "found"), [(0, (0, 3), (15, 10)), (1, (1, 5), (20, 10)), (3, (5, 8), (15, 10))]
    )
    def test_a_halo_of_one_row_on_each_side_comes_from_the_neighbours(
        self, core: int, rows: tuple[int, int], found: tuple[int, int]
    ) -> None:
        stored = ((0, 8), (0, 5)), Binding((4, 1), (0, 1))

        assert needed_and_held(core, (rows, (0, 5)), [stored]) == found

    def test_a_core_without_a_part_holds_nothing_of_what_it_needs(self) -> None:
        assert needed_and_held(1, ((0, 2), (0, 3)), [(((0, 2), (0, 3)), Binding((1, 1), (0, 1)))]) == (6, 0)

    def test_a_tensor_that_a_core_does_not_need_is_none(self) -> None:
        assert needed_and_held(0, None, [(((0, 4),), Binding((2,), (0,)))]) is None
        assert needed_and_held(0, ((4, 6),), [(((0, 4),), Binding((2,), (0,)))]) is None

    @settings(max_examples=examples(100))
    @given(data=st.data(), rank=st.integers(1, 3))
    def test_is_what_counting_elements_gives(self, data: st.DataObject, rank: int) -> None:
        whole = data.draw(boxes(rank))
        lo, hi = whole[0]
        cuts = sorted({lo, hi, *data.draw(st.lists(st.integers(lo, hi), max_size=2))})
        slices = [(((a, b), *whole[1:]), data.draw(bindings(rank))) for a, b in itertools.pairwise(cuts)]
        core, need = data.draw(st.integers(0, 3)), data.draw(st.none() | boxes(rank))
        needed: set[Element] = set()
        held: set[Element] = set()
        for box, binding in slices:
            wanted = None if need is None else intersect(need, box)
            needed |= elements(wanted) if wanted else set()
            held |= elements(binding.part(box, core)) if core < binding.cores else set()

        assert needed_and_held(core, need, slices) == ((len(needed), len(needed & held)) if needed else None)


@pytest.mark.parametrize(
    ("factors", "sample"),
    [((1, 1), (0,)), ((2, 1), (0, 1)), ((3, 1), (0, 1, 2)), ((8, 1), (0, 1, 4, 7)), ((4, 4), (0, 4, 1, 10, 15))],
)
def test_both_ends_the_second_of_each_dimension_and_one_inside_stand_for_all(
    factors: tuple[int, int], sample: tuple[int, ...]
) -> None:
    assert sample_cores(Binding(factors, (0, 1))) == sample


def test_another_numbering_of_cores_shows_in_the_sample() -> None:
    """Equal parts, with cores numbered along the second dimension first."""
    box = ((0, 4), (0, 4))
    one, other = Binding((2, 2), (0, 1)), Binding((2, 2), (1, 0))

    assert one.numbering != other.numbering
    assert [one.part(box, core) == other.part(box, core) for core in (0, 3)] == [True, True]
    assert any(one.part(box, core) != other.part(box, core) for core in sample_cores(one))
