"""Removal of operators without effect, as an optimising compiler does first.

Shape arithmetic is folded on every import, and copies are dropped: Identity, Dropout, and casts, reshapes,
permutations, slices, padding and concatenations that change nothing. On top of that, simplification merges chains of
reshapes and of permutations, and folds a batch normalisation with constant factors into the convolution before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper

from dsascape.workloads.walk_state import Typed, Walk, WalkState, attributes_of, node_name

_COPIES = frozenset({"Identity", "Dropout"})
_SHAPE_ONLY = frozenset({
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Cast", "CastLike", "Split",
})  # fmt: skip
"""Operators that are copies where they keep shape and type."""
_JOINS = frozenset({"Concat", "Sum", "Max", "Min", "Mean"})
"""Operators that are copies of their only input; a concatenation, of the only one that is not empty."""
_VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_STATISTICS = 5
_DROPOUT_TRAINING = 2
_SLICE_STEPS = 4


def without_copies(walk: Walk, outputs: Sequence[str]) -> Walk:
    """Return ``walk`` without operators whose result is their operand; the tensors ``outputs`` keep their names.

    Every import does this, so that such an operator stands between no others: it costs nothing, and what would be fused
    or read in place without it still is.
    """
    return _rewritten(walk, outputs, merges=False)


def simplified(walk: Walk, outputs: Sequence[str]) -> Walk:
    """Return ``walk`` without operators that have no effect; the tensors ``outputs`` keep their names."""
    return _rewritten(walk, outputs, merges=True)


def _rewritten(walk: Walk, outputs: Sequence[str], *, merges: bool) -> Walk:
    state = WalkState("", dict(walk.types), dict(walk.values), set(walk.weights))
    rewrite = _Rewrite(state, frozenset(outputs), _readers(walk.nodes), merges)
    nodes = list(walk.nodes)
    while True:
        changed = rewrite.apply(nodes)
        changed = _live(changed, outputs) if merges else changed
        if len(changed) == len(nodes):
            break
        nodes = changed
        rewrite = replace(rewrite, readers=_readers(nodes), producer={}, renamed={}, called={})
    return replace(walk, types=state.types, values=state.values, weights=frozenset(state.weights), nodes=tuple(nodes))


def _readers(nodes: Sequence[onnx.NodeProto]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        for name in node.input:
            counts[name] = counts.get(name, 0) + 1
    return counts


def _live(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    needed, live = set(outputs), []
    for node in reversed(nodes):
        if any(name in needed for name in node.output):
            live.append(node)
            needed.update(node.input)
    return live[::-1]


@dataclass(slots=True)
class _Rewrite:
    """One rewriting pass over the nodes in order."""

    state: WalkState
    outputs: frozenset[str]
    readers: Mapping[str, int]
    merges: bool
    producer: dict[str, onnx.NodeProto] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """Removed tensors, with the name of the tensor that replaces each."""
    called: dict[str, str] = field(default_factory=dict)
    """Tensors that have become results of the network, which copied them, with the result's name."""

    def apply(self, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
        """Return the nodes after one pass; some of them may have lost their readers."""
        kept: list[onnx.NodeProto] = []
        for original in nodes:
            node = self._reading(original)
            source = self._copied(node)
            if source is not None and node.output[0] not in self.outputs:
                self.renamed[node.output[0]] = source
                continue
            if source is not None and source in self.producer and source not in self.outputs:
                self.called[source] = self.renamed[source] = node.output[0]
                continue
            node = self._merged(node) if self.merges else node
            self.producer.update(dict.fromkeys(node.output, node))
            kept.append(node)
        return [self._writing(node) for node in kept]

    def _writing(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` with the results of the network that are copies in place of what they copy."""
        if not any(name in self.called for name in (*node.input, *node.output)):
            return node
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        changed.input[:] = [self.called.get(name, name) for name in node.input]
        changed.output[:] = [self.called.get(name, name) for name in node.output]
        return changed

    def _reading(self, node: onnx.NodeProto) -> onnx.NodeProto:
        if not any(name in self.renamed for name in node.input):
            return node
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        changed.input[:] = [self.renamed.get(name, name) for name in node.input]
        return changed

    def _copied(self, node: onnx.NodeProto) -> str | None:
        """Return the input that the first output equals, if no other output is read; None if there is none."""
        others = any(name in self.readers or name in self.outputs for name in node.output[1:])
        if node.domain not in ("", "ai.onnx") or others or not node.input:
            return None
        if node.op_type in _COPIES:
            training = node.input[_DROPOUT_TRAINING] if len(node.input) > _DROPOUT_TRAINING else ""
            is_copy = not training or not bool(np.any(self.state.values.get(training, True)))
            return node.input[0] if is_copy else None
        parts = [name for name in node.input if not self._is_empty(name)] if node.op_type in _JOINS else node.input[:1]
        after = self.state.types[node.output[0]]
        if len(parts) != 1 or self.state.types.get(parts[0]) != after:
            return None
        is_copy = node.op_type in _JOINS or self._keeps_order(node, after.shape)
        return parts[0] if is_copy else None

    def _is_empty(self, name: str) -> bool:
        typed = self.state.types.get(name)
        return typed is not None and 0 in typed.shape

    def _keeps_order(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
        """Whether ``node``, whose output has its input's type, certainly leaves every element in place."""
        if node.op_type == "Transpose":
            permutation = attributes_of(node).get("perm", range(len(shape))[::-1])
            moved = [dim for dim in permutation if shape[dim] != 1]
            return all(one < other for one, other in pairwise(moved))
        if node.op_type == "Slice":
            steps = node.input[_SLICE_STEPS] if len(node.input) > _SLICE_STEPS else ""
            return not steps or bool(np.all(self.state.values.get(steps, -1) > 0))
        if node.op_type == "Pad":
            pads = self.state.values.get(node.input[1]) if len(node.input) > 1 else attributes_of(node).get("pads")
            return pads is not None and not np.any(pads)
        if node.op_type == "Gather":
            chosen, axis = self.state.values.get(node.input[1]), int(attributes_of(node).get("axis", 0))
            if chosen is None or not -len(shape) <= axis < len(shape):
                return False
            return np.array_equal(chosen, np.arange(shape[axis]))
        return node.op_type in _SHAPE_ONLY

    def _merged(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` merged with its producer, where one operator can do the work of both."""
        before = self.producer.get(node.input[0]) if node.input else None
        if before is None:
            return node
        if node.op_type == before.op_type == "Transpose":
            return self._merged_permutations(before, node)
        if node.op_type in _VIEWS and before.op_type in _VIEWS:
            return self._merged_views(before, node)
        if (
            node.op_type == "BatchNormalization"
            and before.op_type in _CONVOLUTIONS
            and self._has_one_reader(before.output[0])
        ):
            return self._folded(before, node)
        return node

    def _has_one_reader(self, tensor: str) -> bool:
        return self.readers.get(tensor) == 1 and tensor not in self.outputs

    def _merged_permutations(self, first: onnx.NodeProto, second: onnx.NodeProto) -> onnx.NodeProto:
        backwards = range(len(self.state.types[first.input[0]].shape))[::-1]
        inner, outer = (list(attributes_of(node).get("perm", backwards)) for node in (first, second))
        perm = [inner[dim] for dim in outer]
        return helper.make_node("Transpose", first.input, second.output, name=node_name(second), perm=perm)

    def _merged_views(self, first: onnx.NodeProto, second: onnx.NodeProto) -> onnx.NodeProto:
        name = f"{second.output[0]}:shape"
        self.state.set_constant(name, np.asarray(self.state.types[second.output[0]].shape, np.int64))
        return helper.make_node("Reshape", [first.input[0], name], second.output, name=node_name(second))

    def _folded(self, convolution: onnx.NodeProto, normalisation: onnx.NodeProto) -> onnx.NodeProto:
        """Return the convolution with scaled weights and the shift as its bias."""
        factors = normalisation.input[1:_STATISTICS]
        constants = [*factors, *convolution.input[1:]]
        single = sum(1 for name in normalisation.output if name) == 1
        if not single or not all(name in self.state.weights for name in constants):
            return normalisation
        weight = convolution.input[1]
        names = (f"{weight}*{normalisation.output[0]}", f"{normalisation.output[0]}:bias")
        kernel = self.state.types[weight]
        for name, typed in zip(
            names, (kernel, Typed(kernel.element, self.state.types[factors[0]].shape)), strict=True
        ):
            self.state.types[name] = typed
            self.state.weights.add(name)
        folded = onnx.NodeProto()
        folded.CopyFrom(convolution)
        folded.input[:] = [convolution.input[0], *names]
        folded.output[:] = normalisation.output[:1]
        return folded
