"""Reshape targets at another sequence length or image size than the file has written into them.

An exporter that saw 384 tokens writes ``Reshape(x, [1, 384, 12, 64])``. The importer walks the network twice, as
it is in the file and at the requested sizes; where a shape constant is the same in both walks although its
input has changed, the change is carried over by aligning the factors of the two shapes.
"""

from collections.abc import Sequence
from fractions import Fraction

Shape = tuple[int, ...]


class RescaleError(ValueError):
    """A shape constant that cannot be adapted to the new size; the importer adds file and node to the message."""


def rescaled_reshape(source_before: Shape, target_before: Shape, source: Shape) -> Shape:
    """Return the target of a reshape from ``source``, given the reshape that the file holds.

    Both shapes are cut into the shortest runs of dimensions with equal products. Inside a run, a changed
    source dimension changes the target dimension that its factor lies in. Raises ``RescaleError`` where none fits.
    """
    target = list(target_before)
    for inputs, outputs in aligned_runs(source_before, target_before):
        for dim in inputs:
            ratio = Fraction(source[dim], source_before[dim])
            if ratio == 1:
                continue
            place = _place_of(dim, inputs, outputs, source_before, target_before)
            scaled = target[place] * ratio
            if scaled.denominator != 1:
                raise RescaleError(
                    f"reshape {list(source_before)} to {list(target_before)} cannot follow an input"
                    f" of {list(source)}"
                )
            target[place] = int(scaled)
    return tuple(target)


def aligned_runs(left: Shape, right: Shape) -> list[tuple[range, range]]:
    """Return the shortest pairs of dimension runs of ``left`` and ``right`` that have equal products."""
    runs, i, j = [], 0, 0
    while i < len(left) or j < len(right):
        first, second = i, j
        product_left = product_right = 1
        while (i == first or j == second or product_left != product_right) and (
            i < len(left) or j < len(right)
        ):
            left_turn = i == first or (j > second and product_left < product_right)
            if i < len(left) and (left_turn or j == len(right)):
                product_left *= left[i]
                i += 1
            elif j < len(right):
                product_right *= right[j]
                j += 1
            else:
                break
        if product_left != product_right:
            raise RescaleError(f"shapes {list(left)} and {list(right)} hold different numbers of elements")
        runs.append((range(first, i), range(second, j)))
    return runs


def _place_of(dim: int, inputs: range, outputs: range, source: Shape, target: Shape) -> int:
    """Return the target dimension in which source dimension ``dim`` has its outermost factor."""
    if not outputs:
        raise RescaleError(f"reshape {list(source)} to {list(target)} drops the dimension that changes")
    inner = 1
    for later in range(dim + 1, inputs.stop):
        inner *= source[later]
    span = inner * source[dim]
    below = 1
    for place in reversed(outputs):
        above = below * target[place]
        if above >= span and (above > inner or place == outputs.start):
            return place
        below = above
    return outputs.start


def rescaled_like(before: Shape, after: Shape, target_before: Shape) -> Shape:
    """Return a shape constant that followed ``before`` dimension by dimension, now that it is ``after``.

    Used for Expand and Resize: a target dimension equal to the source's in the file follows it.
    """
    lead = len(target_before) - len(before)
    target = list(target_before)
    for dim, (old, new) in enumerate(zip(before, after, strict=True)):
        if lead + dim >= 0 and target_before[lead + dim] == old != new:
            target[lead + dim] = new
    return tuple(target)


def broadcast_conflict(before: Sequence[Shape], after: Sequence[Shape], operand: int) -> Shape | None:
    """Return the shape that ``operand`` needs to broadcast with the others; None if it broadcasts already.

    A constant of length 384 in the file needs length 128 when it meets activations of length 128; a square constant
    (a causal mask) changes in its other dimension too where no other operand determines that.
    """
    wanted = list(after[operand])
    for other, (old, new) in enumerate(zip(before, after, strict=True)):
        if other == operand:
            continue
        for back in range(1, min(len(wanted), len(new)) + 1):
            mine = wanted[-back]
            if mine != new[-back] and mine != 1 and new[-back] != 1 and old[-back] == before[operand][-back]:
                wanted[-back] = new[-back]
    changed = {after[operand][dim]: size for dim, size in enumerate(wanted) if size != after[operand][dim]}
    for back in range(1, len(wanted) + 1):
        alone = all(len(shape) < back or shape[-back] == 1 for n, shape in enumerate(after) if n != operand)
        if alone and wanted[-back] in changed:
            wanted[-back] = changed[wanted[-back]]
    return tuple(wanted) if changed else None
