"""Marking elements group by group finds what walking every iteration finds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.dsa import products
from tests.scheduler.dsa.every_iteration import elements_read
from tests.scheduler.dsa.products import Cluster, box_product, count_outside, marked, trace
from workloads.loopnest import Access, Box, Index, Loop, LoopNest, Operations, box_volume, full_box

SIZES = st.integers(1, 4)


@st.composite
def written(draw: st.DrawFn, name: str, loops: list[Loop]) -> Access:
    """Draw a write: each space loop in one dimension, some alone and some merged; or in none."""
    left = draw(st.permutations([n for n, loop in enumerate(loops) if not loop.reduction]))
    indices, shape = [], []
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


@settings(max_examples=400)
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
