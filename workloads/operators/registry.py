"""Which operators are known, and the context from which an operator's loop nests are built."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from workloads.graph import Tensor
from workloads.loopnest import Access, Index, Loop, LoopNest

Layout = Literal["inherit", "channels_last", "row_major"]
Array = NDArray[Any]


class UnsupportedOperatorError(ValueError):
    """An operator, or a use of one, that has no loop nest yet; the importer adds file and node."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """An operator as loop nests and the tensors that they pass to each other."""

    nests: tuple[LoopNest, ...]
    internals: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One operator with everything that is known about it when the network is read."""

    name: str
    kind: str
    attributes: Mapping[str, Any]
    inputs: tuple[Tensor | None, ...]
    """None stands for an optional input that is left out."""
    outputs: tuple[Tensor, ...]
    constants: Mapping[str, Array]
    """Values of those inputs that are known."""
    opset: int

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    def input(self, position: int) -> Tensor:
        """Return an input that must be there."""
        tensor = self.optional_input(position)
        if tensor is None:
            raise UnsupportedOperatorError(f"input {position} is missing")
        return tensor

    def optional_input(self, position: int) -> Tensor | None:
        """Return an input, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def constant(self, position: int) -> Array | None:
        """Return the value of an input if it is known."""
        tensor = self.optional_input(position)
        return None if tensor is None else self.constants.get(tensor.name)

    def ints(self, attribute: str, default: Sequence[int]) -> tuple[int, ...]:
        """Return a list attribute, or ``default``."""
        return tuple(int(value) for value in self.attributes.get(attribute, default))

    def axis(self, default: int, rank: int | None = None) -> int:
        """Return attribute ``axis`` as a position from the front."""
        rank = len(self.input(0).shape) if rank is None else rank
        axis = int(self.attributes.get("axis", default))
        return axis + rank if axis < 0 else axis


Builder = Callable[[NodeContext], Lowered]


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """How one operator kind becomes loop nests, and in which order its output lies in memory."""

    build: Builder
    layout: Layout


RULES: dict[str, OperatorRule] = {}


def operator(*kinds: str, layout: Layout = "inherit") -> Callable[[Builder], Builder]:
    """Register a builder for operator ``kinds``; a kind that is taken is an error naming both builders."""

    def register(build: Builder) -> Builder:
        for kind in kinds:
            if kind in RULES:
                raise ValueError(f"operator {kind!r} is built by {RULES[kind].build!r} and by {build!r}")
            RULES[kind] = OperatorRule(build, layout)
        return build

    return register


def space_loops(tensor: Tensor, prefix: str = "i") -> tuple[tuple[Loop, ...], tuple[int, ...]]:
    """Return one loop per dimension of ``tensor``, in its memory order, and each dimension's loop."""
    loops = tuple(Loop(f"{prefix}{dim}", tensor.shape[dim]) for dim in tensor.order)
    position = [0] * len(tensor.order)
    for place, dim in enumerate(tensor.order):
        position[dim] = place
    return loops, tuple(position)


def whole(tensor: Tensor, positions: Sequence[int]) -> Access:
    """Return the access that addresses dimension d of ``tensor`` by loop ``positions[d]``."""
    return Access(tensor.name, tensor.shape, tuple(Index(((loop, 1),)) for loop in positions))


def broadcast(tensor: Tensor, positions: Sequence[int], shape: Sequence[int]) -> Access:
    """Return numpy-style broadcasting of ``tensor`` to ``shape``, addressed by loops ``positions``."""
    lead = len(shape) - len(tensor.shape)
    indices = tuple(
        Index() if size == 1 and shape[lead + dim] != 1 else Index(((positions[lead + dim], 1),))
        for dim, size in enumerate(tensor.shape)
    )
    return Access(tensor.name, tensor.shape, indices)
