"""A loop bounded by another runs over the pairs that the bound names, no more and no fewer, whole or in tiles."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Band, Bound, Box, Loop, LoopNest, Operations
from tests.tiers import examples

SIZES = st.integers(1, 9)
BANDS = st.builds(Band, st.integers(0, 9), st.integers(0, 9))


def kept(band: Band, row: int, column: int) -> bool:
    """Say it as the definition does."""
    return column <= row + band.offset and (not band.window or column > row + band.offset - band.window)


def pairs(band: Band, rows: range, columns: range) -> list[tuple[int, int]]:
    return [(row, column) for row in rows for column in columns if kept(band, row, column)]


def at(*loops: int) -> tuple[Index, ...]:
    return tuple([Index(((loop, 1),)) for loop in loops])


def product(rows: int, columns: int, band: Band) -> LoopNest:
    """Scores: queries times keys, two of each head, of width 3; keys in front of the width."""
    loops = (Loop("h", 2), Loop("q", rows), Loop("k", columns), Loop("w", 3, reduction=True))
    reads = (Access("q", (2, rows, 3), at(0, 1, 3)), Access("k", (2, columns, 3), at(0, 2, 3)))
    write = Access("s", (2, rows, columns), at(0, 1, 2))
    return LoopNest("scores", loops, reads, write, Operations(macs=1), Operations(simple=1), bound=Bound(1, 2, band))


def weighing(rows: int, columns: int, band: Band) -> LoopNest:
    """Results: weights times values, summed up over the keys."""
    loops = (Loop("q", rows), Loop("w", 3), Loop("k", columns, reduction=True))
    reads = (Access("p", (rows, columns), at(0, 2)), Access("v", (columns, 3), at(2, 1)))
    write = Access("y", (rows, 3), at(0, 1))
    return LoopNest("results", loops, reads, write, Operations(macs=1), Operations(simple=1), bound=Bound(0, 2, band))


def points(nest: LoopNest) -> Iterator[tuple[int, ...]]:
    """Yield the iterations that are executed."""
    assert nest.bound is not None
    for point in itertools.product(*map(range, nest.extents)):
        if kept(nest.bound.band, point[nest.bound.outer], point[nest.bound.inner]):
            yield point


def element(access: Access, point: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([point[index.terms[0][0]] for index in access.indices])


def boxes(shape: tuple[int, ...], tile: tuple[int, ...]) -> Iterator[Box]:
    cuts = [range(0, size, step) for size, step in zip(shape, tile, strict=True)]
    for first in itertools.product(*cuts):
        yield tuple([(lo, min(lo + step, size)) for lo, step, size in zip(first, tile, shape, strict=True)])


@given(BANDS, SIZES, SIZES, st.data())
@settings(max_examples=examples(200), deadline=None)
def test_counts_and_hulls_are_those_of_the_pairs(band: Band, rows: int, columns: int, data: st.DataObject) -> None:
    row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    own = (row, data.draw(st.integers(row, rows))), (column, data.draw(st.integers(column, columns)))
    inside = pairs(band, range(*own[0]), range(*own[1]))
    of_rows = {column for _, column in pairs(band, range(*own[0]), range(columns))}
    of_columns = {row for row, _ in pairs(band, range(rows), range(*own[1]))}

    assert band.pairs(*own) == len(inside)
    assert set(range(*band.columns(own[0], columns))) == of_rows
    assert set(range(*band.rows(own[1], rows))) == of_columns


@given(BANDS, SIZES, SIZES, SIZES, SIZES)
@settings(max_examples=examples(100), deadline=None)
def test_tiles_with_any_pair_are_counted(band: Band, rows: int, columns: int, down: int, across: int) -> None:
    met = {(row // down, column // across) for row, column in pairs(band, range(rows), range(columns))}
    lengths = [
        len({column for _, column in pairs(band, range(row, min(row + down, rows)), range(columns))})
        for row in range(0, rows, down)
    ]

    assert band.tiles((down, across), (rows, columns)) == len(met)
    assert band.mean_columns(down, rows, columns) == -(-sum(lengths) // len(lengths))
    assert band.most_columns(down, rows, columns) == max(lengths)


@pytest.mark.parametrize("make", [product, weighing])
@given(band=BANDS, rows=SIZES, columns=SIZES)
@settings(max_examples=examples(60), deadline=None)
def test_a_bounded_nest_counts_its_iterations(make: object, band: Band, rows: int, columns: int) -> None:
    nest = product(rows, columns, band) if make is product else weighing(rows, columns, band)
    executed = list(points(nest))
    outputs = {element(nest.write, point) for point in executed}
    # a result to which no key contributes is written all the same
    written = len(outputs) if make is product else rows * 3

    assert nest.operations() == Operations(macs=len(executed), simple=written)


@pytest.mark.parametrize("make", [product, weighing])
@given(band=BANDS, rows=SIZES, columns=SIZES, tile=st.tuples(SIZES, SIZES, SIZES))
@settings(max_examples=examples(60), deadline=None)
def test_tiles_need_what_their_iterations_read_and_add_up_to_the_whole(
    make: object, band: Band, rows: int, columns: int, tile: tuple[int, int, int]
) -> None:
    nest = product(rows, columns, band) if make is product else weighing(rows, columns, band)
    executed, macs = list(points(nest)), 0
    for box in boxes(nest.write.shape, tile[: len(nest.write.shape)]):
        own = [
            point for point in executed
            if all(lo <= at < hi for at, (lo, hi) in zip(element(nest.write, point), box, strict=True))
        ]  # fmt: skip
        macs += nest.operations_in(box).macs
        assert nest.operations_in(box).macs == len(own)
        for read in nest.reads:
            region, elements = nest.input_region(read, box), [element(read, point) for point in own]
            hull = tuple([(min(along), max(along) + 1) for along in zip(*elements, strict=True)]) or None
            assert region == hull

    assert macs == nest.operations().macs


def test_causal_work_is_that_of_a_triangle() -> None:
    """8 queries and 8 keys of 2 heads and width 3 are 36 pairs instead of 64."""
    assert product(8, 8, Band(0)).operations() == Operations(macs=2 * 36 * 3, simple=2 * 36)
    assert product(8, 8, Band(7)).operations() == Operations(macs=2 * 64 * 3, simple=2 * 64)


def test_a_tile_has_the_keys_of_its_last_row_in_the_mean() -> None:
    """Rows 0..3 need 4 keys, rows 4..7 all 8: 6 in the mean, 8 at most; of a piece of 2 keys no less."""
    nest = weighing(8, 8, Band(0))

    assert nest.loop_extents_for((4, 3)) == [4, 3, 6]
    assert nest.loop_extents_for((4, 3), most=True) == [4, 3, 8]
    assert product(8, 8, Band(0)).loop_extents_for((2, 4, 2)) == [2, 4, 2, 3]


def test_a_bound_of_loops_that_there_are_not_is_refused() -> None:
    write = Access("y", (4,), at(0))
    with pytest.raises(ValueError, match="loop 3 of 'n' is bounded by loop 0 of 1; needs two loops"):
        LoopNest("n", (Loop("i", 4),), (), write, bound=Bound(0, 3, Band(0)))
    with pytest.raises(ValueError, match="offset -1"):
        Band(-1)
