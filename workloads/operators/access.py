"""Access maps that most operators are built from."""

from collections.abc import Sequence

from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop


def space_loops(tensor: Tensor, prefix: str = "i") -> tuple[tuple[Loop, ...], tuple[int, ...]]:
    """Return one loop per dimension of ``tensor``, in its memory order, and each dimension's loop."""
    loops = tuple(Loop(f"{prefix}{dim}", tensor.shape[dim]) for dim in tensor.order)
    position = [0] * len(tensor.order)
    for place, dim in enumerate(tensor.order):
        position[dim] = place
    return loops, tuple(position)


def at(loop: int) -> Index:
    """Return the index that is the loop itself."""
    return Index(((loop, 1),))


def anything(loops: Sequence[int]) -> Index:
    """Return the data-dependent index: any element, chosen anew for every iteration of ``loops``."""
    return Index(tuple((loop, 0) for loop in loops), opaque=True)


def everything(size: int) -> Index:
    """Return the index that reads a whole dimension in every iteration."""
    return Index(window=size)


def whole(tensor: Tensor, positions: Sequence[int]) -> Access:
    """Return the access that addresses dimension d of ``tensor`` by loop ``positions[d]``."""
    return Access(tensor.name, tensor.shape, tuple(at(loop) for loop in positions))


def all_of(tensor: Tensor) -> Access:
    """Return the access that reads the whole of ``tensor`` in every iteration."""
    return Access(tensor.name, tensor.shape, tuple(everything(size) for size in tensor.shape))


def broadcast(tensor: Tensor, positions: Sequence[int], shape: Sequence[int]) -> Access:
    """Return numpy-style broadcasting of ``tensor`` to ``shape``, addressed by loops ``positions``."""
    lead = len(shape) - len(tensor.shape)
    indices = tuple(
        Index() if size == 1 and shape[lead + dim] != 1 else at(positions[lead + dim])
        for dim, size in enumerate(tensor.shape)
    )
    return Access(tensor.name, tensor.shape, indices)


def along(tensor: Tensor, index: Index) -> Access:
    """Return the access to a vector by ``index``, or to a single element (of shape [] or [1])."""
    if tensor.elements == 1:
        return Access(tensor.name, tensor.shape, (Index(),) * len(tensor.shape))
    return Access(tensor.name, tensor.shape, (index,))
