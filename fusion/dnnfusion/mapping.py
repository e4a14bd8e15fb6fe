"""Mapping types: how an operator's input elements map to its output elements (DNNFusion, section 3.1).

Derived from the access maps of the loop nests; the paper's Table 2 is a test of this derivation. A pair of a read and a
write is

- One-to-One where every loop that moves the output moves one dimension of the input, the same one in the same order;
- Reorganize where the elements keep their row-major order under another shape;
- Shuffle where they are permuted;
- One-to-Many where a loop that moves the output leaves the input where it is, or data chooses the element;
- Many-to-Many where an output element needs several input elements.

An operator has the most complex type of all its pairs (footnote 1). Departures, which the paper's table implies:
parameters are no inputs (a batch normalisation is One-to-One although it broadcasts its scale), and an interpolating
Resize, which the table lists as One-to-Many, is Many-to-Many, as it mixes elements.
"""

import math
from collections.abc import Collection
from enum import IntEnum

from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.loopnest import Access, Index, LoopNest
from dsascape.workloads.mapping import is_view


class MappingType(IntEnum):
    """The five types, in the paper's order of increasing complexity."""

    ONE_TO_ONE = 0
    REORGANIZE = 1
    SHUFFLE = 2
    ONE_TO_MANY = 3
    MANY_TO_MANY = 4

    def __str__(self) -> str:
        return "-".join(word if word == "to" else word.capitalize() for word in self.name.lower().split("_"))


def mapping_type(graph: Graph, op: Op) -> MappingType:
    """Return the type of ``op``, an operator of ``graph``."""
    parameters = {name for name in op.inputs if graph.tensors[name].role == "weight"}
    return max(_type_of_nest(nest, parameters) for nest in op.nests)


def _type_of_nest(nest: LoopNest, parameters: Collection[str]) -> MappingType:
    data = [read for read in nest.reads if read.tensor not in parameters]
    return max((type_of_pair(nest, read) for read in data), default=MappingType.ONE_TO_ONE)


def type_of_pair(nest: LoopNest, read: Access) -> MappingType:
    """Return the mapping type of ``read`` and the tensor that ``nest`` writes."""
    if nest.has_reduction or nest.ordered or any(index.window > 1 for index in read.indices):
        return MappingType.MANY_TO_MANY
    moving = _moving(nest, nest.write)
    if any(index.opaque for index in read.indices):
        same_elements = len(nest.reads) == 1 and math.prod(read.shape) == math.prod(nest.write.shape)
        return MappingType.REORGANIZE if same_elements and not _is_chosen(read) else MappingType.ONE_TO_MANY
    if _loops(moving) - _loops(_moving(nest, read)) or any(index.divisor > 1 for index in read.indices):
        return MappingType.ONE_TO_MANY
    if _places(_moving(nest, read)) == _places(moving):
        return MappingType.ONE_TO_ONE
    return MappingType.REORGANIZE if is_view(nest) else MappingType.SHUFFLE


def _moving(nest: LoopNest, access: Access) -> list[tuple[int, ...]]:
    """Return, per dimension of more than one element, the loops of more than one iteration that move it."""
    moving = []
    for index, size in zip(access.indices, access.shape, strict=True):
        loops = tuple(loop for loop, stride in index.terms if stride and nest.loops[loop].extent > 1)
        if size > 1:
            moving.append(loops)
    return moving


def _loops(moving: list[tuple[int, ...]]) -> set[int]:
    return {loop for loops in moving for loop in loops}


def _places(moving: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the loops of the dimensions that any loop moves, in order."""
    return [loops for loops in moving if loops]


def _is_chosen(read: Access) -> bool:
    """Whether elements are data-dependent: no dimension is the outer part of a flat address."""
    return not any(_is_flat(index) for index in read.indices)


def _is_flat(index: Index) -> bool:
    """Whether the index is the outermost part of a flat address, as in a reshape without common factors."""
    return not index.opaque and index.divisor > 1 and index.rounding == "floor"
