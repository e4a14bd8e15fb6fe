"""Elements that a core's part of a layer reads, found group of loops by group, for nests of any length.

Shares nothing with the scheduler. A set of elements is kept as a product: each dimension of the tensor, or the few that
depend on each other, has a mask of its own. Loops that occur together in one index make a group (output row and kernel
row); whether an iteration is wanted, and what it touches, is decided in each group by itself, so that the iterations of
every group are walked and those of the nest are not. `tests.scheduler.dsa.every_iteration` walks those of the nest, and
finds the same.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from networkx.utils import UnionFind
from numpy.typing import NDArray

from dsascape.workloads.loopnest import Access, Box, LoopNest
from tests.scheduler.dsa.touched import Mask, loop_values, touched_places

MOST_ITERATIONS = 4_000_000
"""Maximum number of iterations of a group of loops; longer ones are not walked."""
MOST_ELEMENTS = 1 << 24
"""Maximum elements of a tensor whose several products are marked one by one."""


class Cluster(NamedTuple):
    """Dimensions of a tensor that depend on each other, ascending, and which of their places are in the set."""

    dims: tuple[int, ...]
    mask: Mask


Product = tuple[Cluster, ...]
"""The elements whose place is in every cluster's mask; each dimension is in one cluster. None of the masks is empty."""


class GroupTooLongError(Exception):
    """A nest has a group of more than ``MOST_ITERATIONS``."""


@dataclass(frozen=True)
class Traced:
    """Elements read to compute a part of a layer's output."""

    products: Mapping[str, Sequence[Product]]
    """By tensor; the elements are those of all its products."""
    shapes: Mapping[str, tuple[int, ...]]
    """Elements by tensor."""
    skipped: int
    """Nests that were not followed back, since they have too long a group: less may be marked than is read."""


def box_product(box: Box, shape: Sequence[int]) -> Product:
    """Return the elements of a tensor of ``shape`` that are in ``box``."""
    clusters = []
    for dim, ((lo, hi), size) in enumerate(zip(box, shape, strict=True)):
        mask = np.zeros(size, bool)
        mask[lo:hi] = True
        clusters.append(Cluster((dim,), mask))
    return tuple(clusters)


def trace(nests: Sequence[LoopNest], sink: str, part: Box) -> Traced:
    """Return what ``nests``, first to last, read at whatever remove to compute ``part`` of ``sink``."""
    shapes = {access.tensor: access.shape for nest in nests for access in (*nest.reads, nest.write)}
    marks: dict[str, list[Product]] = {sink: [box_product(part, shapes[sink])]}
    skipped = 0
    for nest in reversed(nests):
        try:
            reads = [pair for product in marks.get(nest.write.tensor, ()) for pair in elements_of_reads(nest, product)]
        except GroupTooLongError:
            skipped += 1
            continue
        for name, product in reads:
            _include(marks.setdefault(name, []), product)
    return Traced(marks, shapes, skipped)


def elements_of_reads(nest: LoopNest, written: Product) -> list[tuple[str, Product]]:
    """Return, for the reads that touch anything, what they touch in the iterations that write some of ``written``.

    Raises ``GroupTooLongError``.
    """
    if not math.prod(nest.extents):
        return []
    found: list[list[Cluster]] = [[] for _ in nest.reads]
    for loops in _groups(nest, written):
        live = _walk(nest, loops, written, found)
        if not live:
            return []
    return [
        (read.tensor, tuple(sorted(clusters)))
        for read, clusters in zip(nest.reads, found, strict=True)
        if all(cluster.mask.any() for cluster in clusters)
    ]


def _groups(nest: LoopNest, written: Product) -> list[tuple[int, ...]]:
    """Return the loops of each group; the first group has none, and what moves with no loop belongs to it.

    Besides those in one index, loops are together that choose a place in one cluster of what is written.
    """
    together = UnionFind(range(len(nest.loops)))
    indices = [index for access in (*nest.reads, nest.write) for index in access.indices]
    linked = [[loop for loop, _ in index.terms] for index in indices]
    linked += [[loop for dim in cluster.dims for loop, _ in nest.write.indices[dim].terms] for cluster in written]
    for loops in linked:
        together.union(*loops)
    return [(), *(tuple(sorted(loops)) for loops in together.to_sets())]


def _walk(nest: LoopNest, loops: tuple[int, ...], written: Product, found: Sequence[list[Cluster]]) -> bool:
    """Add to what is found of each read the clusters that ``loops`` choose; return whether any iteration is live."""
    extents = {loop: nest.loops[loop].extent for loop in loops}
    count = math.prod(extents.values())
    if count > MOST_ITERATIONS:
        raise GroupTooLongError
    values = loop_values(extents)
    live = np.ones(count, bool)
    for dims, mask in written:
        if _chosen_by(loops, nest.write, dims):
            places = [touched_places(nest.write.indices[dim], mask.shape[axis], values, count)[0][0]
                      for axis, dim in enumerate(dims)]  # fmt: skip
            live &= mask[tuple(places)]
    ways = [
        {dim: touched_places(index, size, values, count)
         for dim, (index, size) in enumerate(zip(read.indices, read.shape, strict=True))
         if _chosen_by(loops, read, (dim,))}
        for read in nest.reads
    ]  # fmt: skip
    if nest.per_iteration:  # a product of which one factor is padding is skipped, and reads neither
        for touched in (way for by_dim in ways for way in by_dim.values()):
            live &= np.logical_or.reduce([there for _, there in touched])
    for clusters, read, by_dim in zip(found, nest.reads, ways, strict=True):
        for dims in [tuple(by_dim)] if loops else [(dim,) for dim in by_dim]:
            if dims:
                mask = np.zeros([read.shape[dim] for dim in dims], bool)
                for way in itertools.product(*(by_dim[dim] for dim in dims)):
                    chosen = np.logical_and.reduce([live, *(there for _, there in way)])
                    mask[tuple(places[chosen] for places, _ in way)] = True
                clusters.extend(_factors(Cluster(dims, mask)))
    return bool(live.any())


def _chosen_by(loops: tuple[int, ...], access: Access, dims: Sequence[int]) -> bool:
    """Return whether ``loops``, a group, choose the place in ``dims``, a cluster."""
    named = {loop for dim in dims for loop, _ in access.indices[dim].terms}
    return bool(named.intersection(loops)) if named else not loops


def _factors(cluster: Cluster) -> list[Cluster]:
    """Return the cluster with every dimension by itself that the others do not depend on."""
    found = []
    dims, mask = cluster
    for dim in cluster.dims:
        axis = dims.index(dim)
        alone = _over(mask, [other for other in range(mask.ndim) if other != axis])
        rest = _over(mask, [axis])
        if len(dims) > 1 and int(alone.sum()) * int(rest.sum()) == int(mask.sum()):
            found.append(Cluster((dim,), alone))
            dims, mask = tuple(other for other in dims if other != dim), rest
    return [*found, Cluster(dims, mask)]


def _include(known: list[Product], product: Product) -> None:
    """Add ``product`` to those ``known`` of a tensor, and drop those that are within others."""
    if any(_is_within(product, other) for other in known):
        return
    known[:] = [other for other in known if not _is_within(other, product)]
    for place, other in enumerate(known):
        if [cluster.dims for cluster in other] == [cluster.dims for cluster in product]:
            differing = [n for n, (a, b) in enumerate(zip(other, product, strict=True)) if (a.mask != b.mask).any()]
            if len(differing) == 1:
                (axis,) = differing
                del known[place]
                both = Cluster(product[axis].dims, product[axis].mask | other[axis].mask)
                _include(known, (*product[:axis], both, *product[axis + 1 :]))
                return
    known.append(product)


def _is_within(product: Product, other: Product) -> bool:
    return not any((projection(product, dims) & ~mask).any() for dims, mask in other)


def projection(product: Product, dims: Sequence[int]) -> Mask:
    """Return which places in ``dims``, one axis each, the elements of ``product`` have."""
    result, axes = np.ones((), bool), []
    for cluster in product:
        kept = [dim for dim in cluster.dims if dim in dims]
        if kept:
            gone = [axis for axis, dim in enumerate(cluster.dims) if dim not in dims]
            result = np.multiply.outer(result, _over(cluster.mask, gone))
            axes += kept
    return result.transpose([axes.index(dim) for dim in dims])


def _over(mask: Mask, axes: Sequence[int]) -> Mask:
    """Return where ``mask`` has anything along ``axes``."""
    return np.asarray(mask.any(axis=tuple(axes)))


def marked(products: Iterable[Product], shape: Sequence[int]) -> Mask:
    """Return which elements of a tensor of ``shape`` are in any of ``products``."""
    found = np.zeros(shape, bool)
    for product in products:
        found |= projection(product, range(len(shape)))
    return found


def count_outside(products: Sequence[Product], boxes: Sequence[Box], shape: Sequence[int]) -> int:
    """Return how many elements of any of ``products`` are in none of ``boxes``.

    Of several products of a large tensor those of the largest one alone are counted.
    """
    if len(products) > 1 and math.prod(shape) <= MOST_ELEMENTS:
        mask = marked(products, shape)
        for box in boxes:
            mask[tuple(slice(lo, hi) for lo, hi in box)] = False
        return int(mask.sum())
    return max((_count_of_one(product, boxes, shape) for product in products), default=0)


def _count_of_one(product: Product, boxes: Sequence[Box], shape: Sequence[int]) -> int:
    """Return the same of one product: elements are counted between the borders of the boxes, cluster by cluster."""
    borders = [sorted({0, *(end for box in boxes for end in box[dim] if end < size)}) for dim, size in enumerate(shape)]
    counts: NDArray[np.int64] = np.ones((), np.int64)
    order: list[int] = []
    for dims, mask in product:
        between = mask.astype(np.int64)
        for axis, dim in enumerate(dims):
            between = np.add.reduceat(between, borders[dim], axis=axis)
        counts = np.multiply.outer(counts, between)
        order += dims
    counts = counts.transpose([order.index(dim) for dim in range(len(shape))])
    outside = np.ones(counts.shape, bool)
    for box in boxes:
        first = [borders[dim].index(lo) if lo < hi else len(borders[dim]) for dim, (lo, hi) in enumerate(box)]
        end = [len(borders[dim]) if hi >= shape[dim] else borders[dim].index(hi) for dim, (_, hi) in enumerate(box)]
        outside[tuple(slice(lo, hi) for lo, hi in zip(first, end, strict=True))] = False
    return int(counts[outside].sum())
