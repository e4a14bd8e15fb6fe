"""Iterations that meet conditions, of candidates whose sizes are columns: as many as each has by itself."""

import itertools
import operator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.scheduler.kernels.cost.trips import below
from tests.tiers import examples

ROWS = 4
SIZES = st.lists(st.integers(1, 5), min_size=ROWS, max_size=ROWS)
STRIDES = st.lists(st.integers(0, 6), min_size=ROWS, max_size=ROWS)


def counted(strides: list[int], extents: list[int], limit: int) -> int:
    every = itertools.product(*[range(extent) for extent in extents])
    return sum(sum(map(operator.mul, place, strides)) < limit for place in every)


LIMITS = st.lists(st.integers(-2, 30), min_size=ROWS, max_size=ROWS)


@given(terms=st.lists(st.tuples(STRIDES, SIZES), max_size=3), limits=LIMITS)
@settings(deadline=None, max_examples=examples(200))
def test_every_row_has_the_iterations_that_it_has_by_itself(
    terms: list[tuple[list[int], list[int]]], limits: list[int]
) -> None:
    """A stride of zero is that of a loop which moves other candidates alone."""
    terms = sorted(terms, key=lambda each: -max(each[0]))
    found = below([(np.array(strides), np.array(extents)) for strides, extents in terms], np.array(limits))

    for row in range(ROWS):
        strides, extents = [each[row] for each, _ in terms], [each[row] for _, each in terms]
        assert np.broadcast_to(found, (ROWS,))[row] == counted(strides, extents, limits[row])
