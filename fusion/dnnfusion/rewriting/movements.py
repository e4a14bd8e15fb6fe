"""Operators that only move elements, and what they undo: where a tensor is, element by element, one before it.

Copies (Identity, Dropout, casts to the same type), reshapes and permutations that change nothing, a permutation and its
inverse, a reshape and the one back, parts that are cut out and joined again, parts cut out of what they were joined to.
Where each element comes from is followed through the access maps of the loop nests; data is not looked at.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dsascape.fusion.dnnfusion.rewriting.network import Network
from dsascape.workloads.graph import Graph, Op, WorkloadError
from dsascape.workloads.loopnest import Access, LoopNest

_RENAMES = frozenset({"Identity", "Dropout", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Operators whose elements keep their row-major order."""
MOVEMENTS = _RENAMES | {
    "Transpose", "Concat", "Split", "Slice", "Expand", "Tile", "Pad", "DepthToSpace", "SpaceToDepth",
}  # fmt: skip
_TRAINING = 2
"""The operand of Dropout that says whether it drops anything."""
_REACH = 6
"""Operators that are followed one behind the other."""
_ELSEWHERE = -1
_Places = npt.NDArray[np.int64]
"""Of each element of a tensor, row by row, where in another tensor it comes from."""


def undone(network: Network, graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield each tensor that equals an earlier one, with the nearest such; its readers may read that one instead.

    ``graph`` is the network as it was before any rewriting. What is undone at one image only, as a row that is repeated
    for every image, is left alone.
    """
    now, twice = _Moved(network, graph), None
    for name in network.outputs():
        other = now.equal(name)
        if other is None or not network.can_be_called(name, other):
            continue
        twice = _Moved(network, _of_two_images(graph)) if twice is None else twice
        if twice.are_equal(name, other):
            yield name, other


def _of_two_images(graph: Graph) -> Graph:
    """Return the network at batch 2 where it is at 1 and can have that, else as it is."""
    try:
        return graph.with_batch(2) if graph.batch == 1 and graph.rebuild is not None else graph
    except WorkloadError:
        return graph


class _Moved:
    """What moves in a network, in the shapes of ``graph``."""

    def __init__(self, network: Network, graph: Graph) -> None:
        self._network = network
        self._graph = graph

    def equal(self, name: str) -> str | None:
        """Return the nearest tensor before ``name`` that it equals, None if there is none."""
        border = [name]
        for _ in range(_REACH):
            border = list(dict.fromkeys(data for each in border for data in self._data(each)))
            for data in border:
                if self._looks(data) == self._looks(name) and self.are_equal(name, data):
                    return data
        return None

    def are_equal(self, name: str, other: str) -> bool:
        """Whether every element of ``name`` is the one of ``other`` in the same place."""
        if self._looks(name) != self._looks(other):
            return False
        return bool(np.array_equal(self._followed(name, other, _REACH), np.arange(self._size(name))))

    def _looks(self, name: str) -> object:
        return self._graph.tensors[name].shape, self._network.element_type(name)

    def _size(self, name: str) -> int:
        return math.prod(self._graph.tensors[name].shape)

    def _op(self, name: str) -> Op | None:
        """Return the operator that writes ``name`` and only moves elements, None if there is no such."""
        position = self._graph.producer.get(name)
        op = None if position is None else self._graph.ops[position]
        if op is None or op.kind not in MOVEMENTS or not self._network.operands(name):
            return None
        training = list(self._network.operands(name).values())[_TRAINING:] if op.kind == "Dropout" else []
        return None if any(self._network.scalars.get(each, not each) for each in training if each) else op

    def _data(self, name: str) -> tuple[str, ...]:
        """Return the tensors whose elements are moved to ``name``; none if that is not all that is done."""
        op = self._op(name)
        if op is None:
            return ()
        operands, nests = self._network.operands(name), _nests(op, name)
        moved = [operands.get(read.tensor, "") for nest in nests for read in nest.reads[:1]]
        element = self._network.element_type(name)
        known = all(data in self._graph.tensors and self._network.element_type(data) == element for data in moved)
        return tuple(dict.fromkeys(moved)) if known and all(len(nest.reads) == 1 for nest in nests) else ()

    def _followed(self, name: str, other: str, reach: int) -> _Places:
        """Return where in ``other`` the elements of ``name`` come from, as far as movements lead there."""
        if name == other:
            return np.arange(self._size(name))
        found = np.full(self._size(name), _ELSEWHERE)
        if not reach or not self._data(name):
            return found
        op = self._graph.ops[self._graph.producer[name]]
        operands = self._network.operands(name)
        for nest in _nests(op, name):
            (read,) = nest.reads
            before = self._followed(operands[read.tensor], other, reach - 1)
            if op.kind in _RENAMES:
                return before
            places = _places(nest, read), _places(nest, nest.write)
            if places[0] is None or places[1] is None or before.size == 0:
                return np.full(self._size(name), _ELSEWHERE)
            found[places[1]] = before[places[0]]
        return found


def _nests(op: Op, name: str) -> list[LoopNest]:
    return [nest for nest in op.nests if nest.write.tensor == name]


def _places(nest: LoopNest, access: Access) -> _Places | None:
    """Return the row-major place that every iteration touches, None where that is not said or not in the tensor."""
    places = np.zeros(nest.extents, np.int64)
    for index, size in zip(access.indices, access.shape, strict=True):
        if index.opaque or index.divisor != 1 or index.window != 1:
            return None
        lo, hi = index.span([(0, extent) for extent in nest.extents])
        if lo < 0 or hi > size:
            return None
        along = np.full(nest.extents, index.offset)
        for loop, stride in index.terms:
            shape = [-1 if place == loop else 1 for place in range(len(nest.extents))]
            along += stride * np.arange(nest.extents[loop]).reshape(shape)
        places = places * size + along
    return places.reshape(-1)
