"""Position of the batch in a tensor, and how it passes through loop nests and reshapes.

A batch is a dimension along which a network computes independent images: every operator steps through it by one loop
that it neither reduces nor mixes with anything. That is derived from the access maps of the loop nests.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.workloads.loopnest import Access, LoopNest

Shape = tuple[int, ...]


class MixedError(ValueError):
    """An operator that mixes elements of a dimension; the message says how."""


class RigidError(MixedError):
    """An operator that accepts no other size of a dimension, so that whether it mixes elements is unknown."""


@dataclass(frozen=True, slots=True)
class Place:
    """Position of the batch in a tensor: dimension ``dim``, element ``i`` of which is image ``i // inner % batch``.

    ``inner`` is 1 unless the dimension merges the batch with something else: images times heads has the number of
    heads.
    """

    dim: int
    inner: int = 1


@dataclass(frozen=True, slots=True)
class Batched:
    """A shape that depends on the batch: its sizes for one image, and the position of the batch."""

    of_one: Shape
    place: Place

    def at(self, batch: int) -> Shape:
        """Return the shape at ``batch`` images."""
        dim = self.place.dim
        return (*self.of_one[:dim], self.of_one[dim] * batch, *self.of_one[dim + 1 :])


@dataclass(frozen=True, slots=True)
class _Digit:
    """The loop of a nest that steps through the batch: iteration ``i`` works on image ``i // inner % batch``."""

    loop: int
    inner: int


def place_after(nest: LoopNest, places: Mapping[str, Place], batch: int, *, own_only: bool) -> Place | None:
    """Return the position of the batch in the tensor that ``nest`` writes; None if it reads no tensor with a batch.

    ``places``: positions in the tensors read; ``batch``: its size, of which no other size may be a multiple by
    accident; ``own_only``: an image chosen by an index is assumed to be the image of the index itself, the only one
    where the file has one image. Raises ``MixedError`` where images are mixed.
    """
    reads = [read for read in nest.reads if read.tensor in places]
    if not reads:
        return None
    along = [(read, read.indices[places[read.tensor].dim]) for read in reads]
    chosen = [index for _, index in along if index.opaque or index.table]
    digits = {
        _digit(nest, read, places[read.tensor], batch) for read, index in along if not (index.opaque or index.table)
    }
    if not digits or (chosen and not own_only):
        raise MixedError("chooses its elements by index")
    if len(digits) > 1:
        raise MixedError("combines each of its elements with every other")
    digit = digits.pop()
    if not all(any(loop == digit.loop for loop, _ in index.terms) for index in chosen):
        raise MixedError("chooses its elements by index")
    if nest.loops[digit.loop].reduction:
        raise MixedError("sums over it or compares its elements")
    if digit.loop in nest.exchanged or any(digit.loop == loop for loop, _ in nest.ordered):
        raise MixedError("goes through its elements one after the other")
    written = [
        Place(dim, digit.inner * stride)
        for dim, index in enumerate(nest.write.indices)
        for loop, stride in index.terms
        if loop == digit.loop
    ]
    if len(written) != 1:
        raise MixedError("spreads it over several dimensions")
    return written[0]


def _digit(nest: LoopNest, read: Access, place: Place, batch: int) -> _Digit:
    """Return the loop by which ``read`` steps through the batch of its tensor."""
    index = read.indices[place.dim]
    if index.divisor != 1 or index.window != 1:
        raise MixedError("reads several of its elements at once")
    span = place.inner * batch
    below, digit = 0, None
    for loop, stride in index.terms:
        extent = nest.loops[loop].extent
        if stride > 0 and place.inner % stride == 0 and extent % (place.inner // stride * batch) == 0:
            if digit is not None:
                raise MixedError("reads several of its elements at once")
            digit = _Digit(loop, place.inner // stride)
        elif stride < 0 or stride % span:
            below += abs(stride) * (extent - 1)
    if digit is None:
        raise MixedError("takes a part of it" if index.terms else "takes one of its elements")
    if index.offset % span + below >= place.inner:
        raise MixedError("reads several of its elements at once")
    if sum(loop == digit.loop for each in read.indices if not each.opaque for loop, _ in each.terms) > 1:
        raise MixedError("takes a diagonal of it")
    return digit


def ways_to_reshape(source: Shape, place: Place, target: Shape, batch: int, open_dim: int | None) -> list[Batched]:
    """Return the ways in which ``target`` can carry the batch of ``source``, the likeliest first.

    Both shapes are the file's own, for its own ``batch``. A reshape keeps the row-major order, so a batch larger than
    one lies in one dimension or in none. A batch of one lies between two dimensions, and may become part of either. In
    order of preference: a dimension of size one, the one that the file leaves open (``open_dim``, a size of -1), the
    one behind, and the one before if the one behind is the last (features stay as they are; the batch joins the rows).
    """
    step = place.inner * math.prod(source[place.dim + 1 :])
    ways = []
    for dim, size in enumerate(target):
        below = math.prod(target[dim + 1 :])
        if step % below == 0 and (below * size) % (step * batch) == 0:
            inner = step // below
            alone = size == batch and inner == 1
            into_features = size == inner * batch and dim == len(target) - 1 and not alone
            order = (not alone, dim != open_dim, into_features, dim if alone else -dim)
            of_one = (*target[:dim], size // batch, *target[dim + 1 :])
            ways.append((order, Batched(of_one, Place(dim, inner))))
    return [way for _, way in sorted(ways, key=lambda each: each[0])]
