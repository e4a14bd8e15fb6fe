"""Registry of operators, and the context from which an operator's loop nests are built."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import LoopNest

Layout = Literal["inherit", "as_first", "channels_last", "row_major"]
Array = NDArray[Any]


class UnsupportedOperatorError(ValueError):
    """An operator, or a use of one, that has no loop nest yet; the importer adds file and node."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """Result of lowering an operator: its loop nests, and the tensors that they pass to each other."""

    nests: tuple[LoopNest, ...]
    internals: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One operator with everything that is known about it at import."""

    name: str
    kind: str
    """Registered name: ``Conv``, or ``domain::Kind`` for operators outside the standard."""
    attributes: Mapping[str, Any]
    inputs: tuple[Tensor | None, ...]
    """Inputs in order; None stands for an optional input that is left out."""
    outputs: tuple[Tensor | None, ...]
    """Outputs in order; None stands for one that the file leaves out. Empty while a shape rule runs."""
    constants: Mapping[str, Array]
    """Values of the inputs that are known at import, by name."""
    opset: int

    @property
    def output(self) -> Tensor:
        """The first output."""
        return self.results[0]

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The outputs that the file names."""
        return tuple(tensor for tensor in self.outputs if tensor is not None)

    def optional_output(self, position: int) -> Tensor | None:
        """Return an output, or None where it is left out."""
        return self.outputs[position] if position < len(self.outputs) else None

    def input(self, position: int) -> Tensor:
        """Return a required input; raise ``UnsupportedOperatorError`` if it is missing."""
        tensor = self.optional_input(position)
        if tensor is None:
            raise UnsupportedOperatorError(f"input {position} is missing")
        return tensor

    def expect(self, position: int, *shape: int) -> None:
        """Raise ``UnsupportedOperatorError`` if an input is present and its shape is not ``shape``."""
        tensor = self.optional_input(position)
        if tensor is not None and tensor.shape != shape:
            raise UnsupportedOperatorError(
                f"input {position}, {tensor.name!r}, has shape {list(tensor.shape)}; needs {list(shape)}"
            )

    def optional_input(self, position: int) -> Tensor | None:
        """Return an input, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def constant(self, position: int) -> Array | None:
        """Return the value of an input, None if it is unknown or left out."""
        tensor = self.optional_input(position)
        return None if tensor is None else self.constants.get(tensor.name)

    def unknown(self, *positions: int) -> tuple[Tensor, ...]:
        """Return the inputs at ``positions`` that are present and whose value is unknown."""
        there = (self.optional_input(position) for position in positions)
        return tuple(t for t in there if t is not None and t.name not in self.constants)

    def known_ints(self, position: int, attribute: str, default: Sequence[int]) -> tuple[int, ...] | None:
        """Return a list given as an input or, in older opsets, as an attribute; None if it is not known."""
        if self.optional_input(position) is None:
            return self.ints(attribute, default)
        value = self.constant(position)
        return None if value is None else tuple(int(v) for v in np.asarray(value).reshape(-1))

    def ints(self, attribute: str, default: Sequence[int]) -> tuple[int, ...]:
        """Return a list attribute, or ``default``."""
        return tuple(int(value) for value in self.attributes.get(attribute, default))

    def text(self, attribute: str, default: str) -> str:
        """Return a text attribute, or ``default``."""
        value = self.attributes.get(attribute, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def flag(self, attribute: str, *, default: bool = False) -> bool:
        """Return an integer attribute as a bool."""
        return bool(self.attributes.get(attribute, default))

    def axis(self, default: int, rank: int | None = None) -> int:
        """Return attribute ``axis`` counted from the front; raise ``UnsupportedOperatorError`` if out of range."""
        rank = len(self.input(0).shape) if rank is None else rank
        axis = int(self.attributes.get("axis", default))
        if not -rank <= axis < max(rank, 1):
            raise UnsupportedOperatorError(f"axis {axis} is not one of {count(rank, 'dimension')}")
        return axis % max(rank, 1)


Builder = Callable[[NodeContext], Lowered]
ShapeRule = Callable[[NodeContext], Sequence[tuple[Sequence[int], str]]]
"""Shape rule of an operator: returns shape and dtype (``fp32``, ``int8``, ...) of every output."""


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """Lowering rule of one operator kind: its builder, and the memory order of its output."""

    build: Builder
    layout: Layout
    shapes: ShapeRule | None = None
    """Shape rule; needed for operators outside the ONNX standard only."""
    partial: bool = False
    """Whether an operand may have more or fewer elements than the loops step through: slices, padding, gathers."""
    updates: int = 0
    """Place of the updates among its nest's reads, for an operator that writes them into a copy of its first input.
    The copy may share the input's memory, so that only the updates move."""
    appends: bool = False
    """Whether it puts further inputs behind its first; the result may begin in that one's memory."""


RULES: dict[str, OperatorRule] = {}

_STRINGS = "text tensors are not supported"
_SEQUENCES = "sequences and optional values have no static shape; export the network with tensors only"
_UNROLL = "loops over sub-graphs are not supported; export the network unrolled"
NOT_TAKEN: Mapping[str, str] = {
    "Loop": _UNROLL, "Scan": _UNROLL, "SequenceMap": _UNROLL,
    "LinearAttention": "the standard defines it by a loop over time",
    "SequenceAt": _SEQUENCES, "SequenceConstruct": _SEQUENCES, "SequenceEmpty": _SEQUENCES,
    "SequenceErase": _SEQUENCES, "SequenceInsert": _SEQUENCES, "SequenceLength": _SEQUENCES,
    "SplitToSequence": _SEQUENCES, "ConcatFromSequence": _SEQUENCES, "Optional": _SEQUENCES,
    "OptionalGetElement": _SEQUENCES, "OptionalHasElement": _SEQUENCES,
    "StringConcat": _STRINGS, "StringNormalizer": _STRINGS, "StringSplit": _STRINGS,
    "RegexFullMatch": _STRINGS,
    "TfIdfVectorizer": _STRINGS, "ImageDecoder": "decoding a file is not a tensor operation",
}  # fmt: skip
"""Operators of the standard that have no loop nest, and why."""


def operator(
    *kinds: str, layout: Layout = "inherit", shapes: ShapeRule | None = None, partial: bool = False,
    updates: int = 0, appends: bool = False,
) -> Callable[[Builder], Builder]:  # fmt: skip
    """Register a builder for operator ``kinds``; raise ``ValueError`` naming both builders if a kind has one already.

    An operator of a custom domain is written ``com.acme::MyOperator`` and brings its rule for ``shapes``. ``partial``:
    its operands need not have as many elements as its loops step through; ``updates`` and ``appends``: its output may
    share memory with its first input (see `OperatorRule`).
    """

    def register(build: Builder) -> Builder:
        for kind in kinds:
            if kind in RULES:
                raise ValueError(f"operator {kind!r} is built by {RULES[kind].build!r} and by {build!r}")
            if "::" in kind and shapes is None:
                raise ValueError(
                    f"operator {kind!r} is outside the ONNX standard and needs a rule for shapes"
                )
            RULES[kind] = OperatorRule(build, layout, shapes, partial, updates, appends)
        return build

    return register


@lru_cache(maxsize=1)
def load_extensions() -> tuple[str, ...]:
    """Import the modules that installed packages name in the entry points ``dsascape.operators``.

    Returns a message for each that cannot be imported; the others are registered nevertheless.
    """
    broken = []
    for entry in entry_points(group="dsascape.operators"):
        try:
            _import_extension(entry)
        except UnsupportedOperatorError as error:
            broken.append(str(error))
    return tuple(broken)


def _import_extension(entry: EntryPoint) -> None:
    """Raise ``UnsupportedOperatorError`` naming the entry point if it cannot be imported."""
    try:
        entry.load()
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise UnsupportedOperatorError(
            f"operators of the entry point {entry.name!r}, {entry.value!r}, cannot be imported:"
            f" {type(error).__name__}: {error}"
        ) from error


def kind_of(domain: str, op_type: str) -> str:
    """Return the name under which an operator is registered."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"
