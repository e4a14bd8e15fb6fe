"""Rows of a kernel of which a mask leaves each another number of columns: how evenly threads share their work."""

import itertools
from dataclasses import dataclass, replace

from dsascape.scheduler.cpu.schedule.chunks import Chunks
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.bounds import Band
from dsascape.workloads.index import Index
from dsascape.workloads.memo import memoized, memoized_in_process


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """Dimension of a sink whose elements are rows of a mask."""

    dim: int
    size: int
    band: Band
    columns: int
    """Columns of the mask."""
    column_dim: int
    """Dimension of the sink that numbers the columns; -1 where they are reduced."""


@memoized
def masked_rows(layer: Layer) -> MaskedRows | None:
    """Return the rows of the sink that a mask bounds the columns of; None where it bounds nothing along the sink."""
    for compiled in layer.nests:
        nest, bound = compiled.nest, compiled.nest.bound
        if bound is None or nest.write.shape != layer.sink.shape:
            continue
        dims = {index: dim for dim, index in enumerate(nest.write.indices)}
        dim, column_dim = (dims.get(Index(((loop, 1),)), -1) for loop in (bound.outer, bound.inner))
        if dim >= 0:
            return MaskedRows(dim, nest.write.shape[dim], bound.band, nest.extents[bound.inner], column_dim)
    return None


def dealt(iteration: int, number: int) -> int:
    """Return which of ``number`` parts an iteration takes: the first and the last that are left, in turn."""
    return number - 1 - iteration // 2 if iteration % 2 else iteration // 2


def densities_of(rows: MaskedRows, step: int, inner: int, chunks: Chunks, *, is_dealt: bool) -> Chunks:
    """Return the chunks with the densities of rows in parts of ``step``, each for ``inner`` iterations."""
    return replace(chunks, densities=_densities(rows, step, inner, chunks, is_dealt=is_dealt))


@memoized_in_process(4096)
def _densities(rows: MaskedRows, step: int, inner: int, chunks: Chunks, *, is_dealt: bool) -> tuple[float, ...]:
    """Return `densities` of rows in parts of ``step``, each for ``inner`` iterations."""
    number = -(-rows.size // step)
    order = [dealt(each, number) if is_dealt else each for each in range(number)]
    spans = [rows.band.columns((each * step, min((each + 1) * step, rows.size)), rows.columns) for each in order]
    work = [end - first for first, end in spans]
    before = list(itertools.accumulate(work, initial=0))

    def until(iteration: int) -> int:
        times, left = divmod(iteration, number * inner)
        part, rest = divmod(left, inner)
        return inner * (times * before[-1] + before[part]) + (rest * work[part] if rest else 0)

    edges = [each * chunks.iterations for each in range(chunks.count)]
    edges.append(edges[-1] + chunks.last_iterations)
    mean = until(edges[-1]) / edges[-1]
    found = [(until(end) - until(begin)) / (end - begin) / mean for begin, end in itertools.pairwise(edges)]
    return tuple(found) if len(set(found)) > 1 else ()
