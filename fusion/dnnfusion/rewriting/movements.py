"""Sequences of data movements that cancel out, so that a tensor equals an earlier one element by element.

Copies (Identity, Dropout, casts to the same type), reshapes and permutations that change nothing, a permutation and its
inverse, a reshape and its inverse, slices that are concatenated again, slices of a concatenation. The origin of each
element is traced through the access maps of the loop nests, independent of values.
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
"""Operand of Dropout that enables training mode."""
_REACH = 6
"""Maximum number of consecutive operators that are traced."""
_ELSEWHERE = -1
_Places = npt.NDArray[np.int64]
"""Origin of each element of a tensor (row-major): its place in another tensor, or `_ELSEWHERE`."""


def cancelled_movements(network: Network, graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield (tensor, earlier tensor) pairs of equal tensors, with the nearest such; readers may read the earlier one.

    ``graph`` is the network before any rewriting. Movements that cancel out only for one image, such as a row that is
    repeated for every image, are left alone.
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
    """Return the network at batch 2 if it is at batch 1 and can be rebuilt there, otherwise as it is."""
    try:
        return graph.with_batch(2) if graph.batch == 1 and graph.rebuild is not None else graph
    except WorkloadError:
        return graph


class _Moved:
    """Traces of data movements in a network, at the shapes of ``graph``."""

    def __init__(self, network: Network, graph: Graph) -> None:
        self._network = network
        self._graph = graph

    def equal(self, name: str) -> str | None:
        """Return the nearest earlier tensor that equals ``name``, None if there is none."""
        border = [name]
        for _ in range(_REACH):
            border = list(dict.fromkeys(data for each in border for data in self._data(each)))
            for data in border:
                if self._type(data) == self._type(name) and self.are_equal(name, data):
                    return data
        return None

    def are_equal(self, name: str, other: str) -> bool:
        """Whether every element of ``name`` is the one of ``other`` in the same place."""
        if self._type(name) != self._type(other):
            return False
        return bool(np.array_equal(self._origins(name, other, _REACH), np.arange(self._size(name))))

    def _type(self, name: str) -> object:
        return self._graph.tensors[name].shape, self._network.element_type(name)

    def _size(self, name: str) -> int:
        return math.prod(self._graph.tensors[name].shape)

    def _op(self, name: str) -> Op | None:
        """Return the operator that writes ``name`` if it only moves elements, otherwise None."""
        position = self._graph.producer.get(name)
        op = None if position is None else self._graph.ops[position]
        if op is None or op.kind not in MOVEMENTS or not self._network.operands(name):
            return None
        training = list(self._network.operands(name).values())[_TRAINING:] if op.kind == "Dropout" else []
        return None if any(self._network.scalars.get(each, not each) for each in training if each) else op

    def _data(self, name: str) -> tuple[str, ...]:
        """Return the tensors whose elements are moved to ``name``; empty if it is not written by moves alone."""
        op = self._op(name)
        if op is None:
            return ()
        operands, nests = self._network.operands(name), _nests(op, name)
        moved = [operands.get(read.tensor, "") for nest in nests for read in nest.reads[:1]]
        element = self._network.element_type(name)
        same_type = all(data in self._graph.tensors and self._network.element_type(data) == element for data in moved)
        return tuple(dict.fromkeys(moved)) if same_type and all(len(nest.reads) == 1 for nest in nests) else ()

    def _origins(self, name: str, other: str, reach: int) -> _Places:
        """Return the origins of the elements of ``name`` in ``other``, over at most ``reach`` movements."""
        if name == other:
            return np.arange(self._size(name))
        origins = np.full(self._size(name), _ELSEWHERE)
        if not reach or not self._data(name):
            return origins
        op = self._graph.ops[self._graph.producer[name]]
        operands = self._network.operands(name)
        for nest in _nests(op, name):
            (read,) = nest.reads
            before = self._origins(operands[read.tensor], other, reach - 1)
            if op.kind in _RENAMES:
                return before
            places = _places(nest, read), _places(nest, nest.write)
            if places[0] is None or places[1] is None or before.size == 0:
                return np.full(self._size(name), _ELSEWHERE)
            origins[places[1]] = before[places[0]]
        return origins


def _nests(op: Op, name: str) -> list[LoopNest]:
    return [nest for nest in op.nests if nest.write.tensor == name]


def _places(nest: LoopNest, access: Access) -> _Places | None:
    """Return the row-major place that each iteration touches; None where it is data-dependent or out of bounds."""
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
