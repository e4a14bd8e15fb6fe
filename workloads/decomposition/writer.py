"""Registry of operators that are written out at import, and the writer of the nodes that stand for one of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dsascape.workloads.operators.registry import Array, UnsupportedOperatorError
from dsascape.workloads.walk_state import Typed, WalkState, attributes_of, node_name

MICROSOFT = "com.microsoft"
"""Domain of the operators that onnxruntime adds to the standard."""
OWN = "dsascape"
"""Domain of the operators by which the zoo's language models state what the standard has no operator for."""


@dataclass(slots=True)
class NodeWriter:
    """Writes the nodes that one node stands for; names of inner tensors begin with that of its first result."""

    node: onnx.NodeProto
    state: WalkState
    recorded: Mapping[str, Typed] = field(default_factory=dict)
    """Types that the file states for results."""
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the node by name."""
        return attributes_of(self.node)

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a number, or ``default``."""
        return float(self.attributes.get(name, default))

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return an integer attribute as a bool."""
        return bool(self.attributes.get(name, default))

    def optional(self, place: int) -> str:
        """Return the name of an input, empty where it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def input(self, place: int) -> str:
        """Return the name of an input; raise ``UnsupportedOperatorError`` if it is left out."""
        name = self.optional(place)
        if not name:
            raise UnsupportedOperatorError(f"input {place} is missing")
        return name

    def output(self, place: int) -> str:
        """Return the name of a result, empty where it is left out."""
        return self.node.output[place] if place < len(self.node.output) else ""

    def refuse(self, *places: int, why: str) -> None:
        """Raise ``UnsupportedOperatorError`` if one of the inputs ``places`` is given."""
        given = [place for place in places if self.optional(place)]
        if given:
            raise UnsupportedOperatorError(f"input {given[0]}, {self.optional(given[0])!r}, is not supported: {why}")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input of the node."""
        return self.state.types[name].shape

    def element(self, name: str) -> int:
        """Return the ONNX element type of an input of the node."""
        return self.state.types[name].element

    def value(self, name: str) -> Array | None:
        """Return the value of an input, None where it is not known at import."""
        return self.state.values.get(name)

    def fresh(self, label: str) -> str:
        """Return a name for an inner tensor."""
        result = next(name for name in self.node.output if name)
        return self.state.free_name(f"{result}/{label}{len(self.nodes)}")

    def op(self, kind: str, *inputs: str, to: str = "", domain: str = "", **attributes: Any) -> str:
        """Write an operator of one result; return the result's name, ``to`` where that is given.

        An attribute that is called ``to`` itself, as that of Cast, is given as ``to_``.
        """
        return self.split(kind, *inputs, to=(to or self.fresh(kind),), domain=domain, **attributes)[0]

    def split(
        self, kind: str, *inputs: str, to: tuple[str, ...], domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Write an operator of several results, called ``to``, which are returned."""
        name = f"{node_name(self.node)}/{kind}_{len(self.nodes)}"
        attributes = {key.rstrip("_"): value for key, value in attributes.items()}
        self.nodes.append(helper.make_node(kind, inputs, to, name=name, domain=domain, **attributes))
        return to

    def constant(self, value: Array) -> str:
        """Write a constant; return its name."""
        name = self.fresh("constant")
        self.nodes.append(helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(value)))
        return name

    def ints(self, *values: int) -> str:
        """Write a list of whole numbers; return its name."""
        return self.constant(np.asarray(values, np.int64))

    def scalar(self, value: float, element: int) -> str:
        """Write a number of an ONNX element type; return its name."""
        name = self.fresh("constant")
        tensor = helper.make_tensor("value", element, [], [value])
        self.nodes.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
        return name

    def reshape(self, name: str, *sizes: int, to: str = "") -> str:
        """Write a reshape to ``sizes``: 0 keeps the size at that place, -1 is what is left."""
        return self.op("Reshape", name, self.ints(*sizes), to=to)

    def whole_numbers(self, name: str) -> str:
        """Write a cast to int64 where ``name`` is something else."""
        known = self.state.types.get(name)
        if known is not None and known.element == TensorProto.INT64:
            return name
        return self.op("Cast", name, to_=TensorProto.INT64)


Decomposition = Callable[[NodeWriter], None]
"""Writes the nodes of one operator; raises ``UnsupportedOperatorError`` for a use that is not taken."""

DECOMPOSED: dict[str, Decomposition] = {}
"""Function of each kind that is written out: ``Kind``, or ``domain::Kind`` outside of the standard."""


def decomposed(*kinds: str) -> Callable[[Decomposition], Decomposition]:
    """Register the function that writes ``kinds`` out."""

    def register(write: Decomposition) -> Decomposition:
        DECOMPOSED.update(dict.fromkeys(kinds, write))
        return write

    return register
