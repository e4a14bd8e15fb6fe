"""Constants tied to a file's own sequence length or image size, replaced in a walk at other sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnx

from dsascape.workloads.mask_bands import resized_mask
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.rescale import RescaleError, broadcast_conflict, rescaled_like, rescaled_reshape
from dsascape.workloads.walk_state import Infer, Typed, Walk, WalkState

_BROADCASTING = frozenset(
    {"Add", "Sub", "Mul", "Div", "Where", "Pow", "Min", "Max", "And", "Or", "Equal", "Sum"}
)
_RESIZE_SIZES = 3


@dataclass(frozen=True, slots=True)
class CarryOver:
    """Adapts nodes of the second walk, whose tensors so far are ``state``, by comparison with the walk ``before``."""

    state: WalkState
    before: Walk
    sequence_ratio: Fraction
    """Sequence length of this walk divided by the file's."""

    def prepared(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` as it is: how it changes depends on the types of its operands."""
        return node

    def __call__(self, node: onnx.NodeProto, infer: Infer) -> tuple[onnx.NodeProto, dict[str, Typed]]:
        """Return ``node`` with shape constants adapted to the new sizes, and the types of its outputs."""
        changed = self._carried(node)
        return changed, infer(changed)

    def _carried(self, node: onnx.NodeProto) -> onnx.NodeProto:
        inputs = list(node.input)
        old, new = (
            self.before.types.get(inputs[0] if inputs else ""),
            self.state.types.get(inputs[0] if inputs else ""),
        )
        if old is None or new is None:
            return node
        if node.op_type == "Concat":
            return self._conforming_concat(node)
        if node.op_type in _BROADCASTING:
            return self._conforming(node)
        try:
            return self._following(node, old.shape, new.shape)
        except RescaleError as error:
            raise self.state.error(node, f"cannot change sequence or image: {error}") from None

    def _following(self, node: onnx.NodeProto, old: tuple[int, ...], new: tuple[int, ...]) -> onnx.NodeProto:
        target = node.input[1] if len(node.input) > 1 else ""
        values = self.state.values
        stuck = target in values and np.array_equal(values[target], self.before.values.get(target, ()))
        result = self.before.types[node.output[0]].shape
        if node.op_type == "Reshape" and stuck and old != new:
            reshaped = rescaled_reshape(old, result, new)
            return self._with_input(node, 1, np.asarray(reshaped, np.int64))
        if node.op_type == "Expand" and stuck:
            return self._with_input(node, 1, np.asarray(rescaled_like(old, new, result), np.int64))
        if node.op_type == "Resize" and len(node.input) > _RESIZE_SIZES and old != new:
            if node.input[_RESIZE_SIZES] in values:
                sizes = np.asarray(rescaled_like(old, new, result), np.int64)
                return self._with_input(node, _RESIZE_SIZES, sizes)
        elif node.op_type == "Slice" and self.sequence_ratio > 1:
            return self._open_ended(node, old, new)
        return node

    def _open_ended(self, node: onnx.NodeProto, old: Sequence[int], new: Sequence[int]) -> onnx.NodeProto:
        """Return a slice whose end follows the size of the dimension, if it was that size in the file."""
        ends, axes = (self.state.values.get(name) for name in node.input[2:4])
        if ends is None or axes is None:
            return node
        grown = [
            int(new[a]) if int(e) == old[a] and new[a] > old[a] else int(e)
            for e, a in zip(ends.reshape(-1), axes.reshape(-1), strict=True)
        ]
        return self._with_input(node, 2, np.asarray(grown, np.int64))

    def _conforming(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` with weights that no longer broadcast (position tables, masks) shortened or lengthened."""
        olds = [self.before.types[name].shape for name in node.input]
        news = [self.state.types[name].shape for name in node.input]
        for place, name in enumerate(list(node.input)):
            wanted = broadcast_conflict(olds, news, place) if name in self.state.weights else None
            if wanted is not None:
                node = self._with_weight(node, place, wanted)
        return node

    def _conforming_concat(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return a concatenation whose constant parts have the other parts' sizes in all dimensions but the axis."""
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        live = [name for name in node.input if name not in self.state.weights]
        if not live:
            return node
        old, new = self.before.types[live[0]].shape, self.state.types[live[0]].shape
        for place, name in enumerate(list(node.input)):
            if name in self.state.weights:
                mine = self.state.types[name].shape
                wanted = tuple(
                    new[d] if d != axis % len(mine) and size == old[d] else size
                    for d, size in enumerate(mine)
                )
                if wanted != mine:
                    node = self._with_weight(node, place, wanted)
        return node

    def _with_weight(self, node: onnx.NodeProto, place: int, shape: tuple[int, ...]) -> onnx.NodeProto:
        name = node.input[place]
        value = self.state.values.get(name)
        mask = None if value is None else resized_mask(value, shape)
        return _with_input_name(node, place, self.state.add_resized(name, shape, mask))

    def _with_input(self, node: onnx.NodeProto, place: int, value: Array) -> onnx.NodeProto:
        name = self.state.free_name(f"{node.output[0]}:{node.input[place]}")
        self.state.set_constant(name, value)
        return _with_input_name(node, place, name)


def _with_input_name(node: onnx.NodeProto, place: int, name: str) -> onnx.NodeProto:
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    changed.input[place] = name
    return changed
