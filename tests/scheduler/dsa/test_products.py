"""Tracing elements group by group gives the same result as walking every iteration."""


import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads.loopnest import Access, Box, Index, Loop, LoopNest, Operations
from tests.scheduler.dsa import products
from tests.scheduler.dsa.every_iteration import elements_read
from tests.scheduler.dsa.products import box_product, count_outside, marked, trace
from tests.tiers import examples

SIZES = st.integers(1, 4)


@st.composite
def written(draw: st.DrawFn, name: str, loops: list[Loop]) -> Access:
    """Draw a write: each space loop in one dimension, some alone and some merged; or in none."""
    left = draw(st.permutations([n for n, loop in enumerate(loops) if not loop.reduction]))
    indices: list[Index] = []
    shape: list[int] = []
    while left and (not indices or draw(st.integers(0, 9))):
        merged = [left.pop() for _ in range(min(draw(st.sampled_from([1, 1, 1, 2, 3])), len(left)))]
        stride, terms = 1, []
        for loop in merged:
            terms.append((loop, stride))
            stride *= loops[loop].extent
        offset, behind = draw(st.sampled_from([0, 0, 1])), draw(st.sampled_from([0, 0, 1]))
        indices.append(Index(tuple(terms), offset))
        shape.append(offset + stride + behind)
    return Access(name, tuple(shape), tuple(indices))


@st.composite
def index_of(draw: st.DrawFn, loops: list[Loop], size: int) -> Index:
    chosen = draw(st.lists(st.sampled_from(range(len(loops))), unique=True, max_size=3)) if loops else []
    terms = tuple((loop, draw(st.sampled_from([1, 1, 1, 2, 3, 0, -1]))) for loop in chosen)
    offset = draw(st.integers(-2, 2))
    kind = draw(st.sampled_from(["plain", "plain", "plain", "floor", "exact", "window", "clamp", "any", "table"]))
    if kind == "any":
        return Index(terms, opaque=True)
    if kind == "table":
        table = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=6))
        return Index(terms, opaque=True, table=tuple(table))
    return Index(
        terms, offset, divisor=draw(st.integers(1, 3)) if kind in ("floor", "exact", "clamp") else 1,
        rounding="exact" if kind == "exact" else "floor", window=draw(st.integers(1, 3)) if kind == "window" else 1,
        clamp=kind == "clamp",
    )  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> list[LoopNest]:
    """Draw nests that each read what any before them wrote, or inputs."""
    nests: list[LoopNest] = []
    shapes = {"in": tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))}
    for number in range(draw(st.integers(1, 3))):
        loops = [Loop(str(n), draw(SIZES), draw(st.integers(0, 3)) == 0) for n in range(draw(st.integers(1, 4)))]
        write = draw(written(f"t{number}", loops))
        reads = []
        for name in draw(st.lists(st.sampled_from(sorted(shapes)), min_size=1, max_size=2)):
            indices = tuple(draw(index_of(loops, size)) for size in shapes[name])
            reads.append(Access(name, shapes[name], indices))
        work = Operations(macs=1) if draw(st.booleans()) else Operations()
        nests.append(LoopNest(f"n{number}", tuple(loops), tuple(reads), write, work))
        shapes[write.tensor] = write.shape
    return nests


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    firsts = [draw(st.integers(0, size - 1)) for size in shape]
    return tuple((lo, draw(st.integers(lo + 1, size))) for lo, size in zip(firsts, shape, strict=True))


def conv(rows: int) -> LoopNest:
    """Return a convolution of 3 x 3 with padding of 1 from 4 to 2 channels of square images."""
    loops = [Loop("c", 2), Loop("h", rows), Loop("w", rows)]
    loops += [Loop(name, extent, reduction=True) for name, extent in (("ci", 4), ("kh", 3), ("kw", 3))]
    image = Access("x", (4, rows, rows), (at(3), Index(((1, 1), (4, 1)), -1), Index(((2, 1), (5, 1)), -1)))
    weight = Access("w", (2, 4, 3, 3), (at(0), at(3), at(4), at(5)))
    write = Access("y", (2, rows, rows), (at(0), at(1), at(2)))
    return LoopNest("conv", tuple(loops), (image, weight), write, Operations(macs=1))


def at(loop: int) -> Index:
    return Index(((loop, 1),))


class TestByHand:
    def test_a_convolution_reads_a_border_and_no_padding(self) -> None:
        traced = trace([conv(1000)], "y", ((1, 2), (0, 5), (990, 1000)))

        assert count_outside(traced.products["x"], [], (4, 1000, 1000)) == 4 * 6 * 11
        assert count_outside(traced.products["x"], [((0, 4), (0, 5), (0, 1000))], (4, 1000, 1000)) == 4 * 1 * 11
        assert count_outside(traced.products["w"], [], (2, 4, 3, 3)) == 1 * 4 * 3 * 3

    def test_weights_that_meet_nothing_but_padding_are_not_read(self) -> None:
        traced = trace([conv(1)], "y", ((0, 1), (0, 1), (0, 1)))

        assert count_outside(traced.products["w"], [], (2, 4, 3, 3)) == 4

    def test_heads_beside_the_batch_depend_on_both(self) -> None:
        """Rows 1 to 5 of two batches with three heads: the second and third head of one, the first two of the other."""
        loops = (Loop("b", 2), Loop("h", 3), Loop("d", 4))
        apart = Access("x", (2, 3, 4), (at(0), at(1), at(2)))
        merged = Access("y", (6, 4), (Index(((0, 3), (1, 1))), at(2)))
        traced = trace([LoopNest("reshape", loops, (apart,), merged)], "y", ((1, 5), (0, 4)))

        (product,) = traced.products["x"]
        assert [dims for dims, _ in product] == [(0, 1), (2,)]
        assert product[0].mask.tolist() == [[False, True, True], [True, True, False]]
        assert count_outside([product], [((0, 1), (0, 3), (0, 2))], (2, 3, 4)) == 2 * 2 + 2 * 4

    def test_a_nest_with_too_long_a_group_is_counted_and_reads_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(products, "MOST_ITERATIONS", 29)  # ten rows by three rows of the kernel are one more

        traced = trace([conv(10)], "y", ((0, 2), (0, 10), (0, 10)))

        assert traced.skipped == 1
        assert "x" not in traced.products

    def test_of_several_products_of_a_large_tensor_the_largest_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        two = [box_product(box, (8, 8)) for box in (((0, 4), (0, 4)), ((2, 8), (2, 8)))]

        assert count_outside(two, [((0, 8), (0, 3))], (8, 8)) == 4 * 1 + 6 * 5 - 2 * 1
        monkeypatch.setattr(products, "MOST_ELEMENTS", 63)
        assert count_outside(two, [((0, 8), (0, 3))], (8, 8)) == 6 * 5


@settings(max_examples=examples(400))
@given(data=st.data(), nests=chains())
def test_every_iteration_walked_marks_the_same(data: st.DataObject, nests: list[LoopNest]) -> None:
    sink = nests[-1].write
    part = data.draw(boxes(sink.shape))

    traced = trace(nests, sink.tensor, part)

    assert not traced.skipped
    for name, exact in elements_read(nests, sink.tensor, part).items():
        found = marked(traced.products.get(name, ()), exact.shape)
        assert (found == exact).all(), name
        held = [data.draw(boxes(exact.shape)) for _ in range(data.draw(st.integers(0, 2)))]
        for box in held:
            exact[tuple(slice(lo, hi) for lo, hi in box)] = False
        assert count_outside(traced.products.get(name, ()), held, exact.shape) == exact.sum()
