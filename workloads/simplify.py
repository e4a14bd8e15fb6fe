"""Removal of operators without effect, as an optimising compiler does first.

Shape arithmetic is folded on every import. On top of that, this drops copies (Identity, Dropout, casts,
reshapes, permutations, slices that change nothing), merges chains of reshapes and of permutations,
and folds a batch normalisation with constant factors into the convolution before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper

from dsascape.workloads.walk_state import Typed, Walk, WalkState, attributes_of, node_name

_COPIES = frozenset({"Identity", "Dropout"})
_SHAPE_ONLY = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Cast"})
"""Operators that are copies where they keep shape and type."""
_VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_STATISTICS = 5
_DROPOUT_TRAINING = 2
_SLICE_STEPS = 4


def simplified(walk: Walk, outputs: Sequence[str]) -> Walk:
    """Return ``walk`` without operators that have no effect; the tensors ``outputs`` keep their names."""
    state = WalkState("", dict(walk.types), dict(walk.values), set(walk.weights))
    rewrite = _Rewrite(state, frozenset(outputs), _readers(walk.nodes))
    nodes = list(walk.nodes)
    while True:
        changed = _live(rewrite.apply(nodes), outputs)
        if len(changed) == len(nodes):
            break
        nodes = changed
        rewrite = replace(rewrite, readers=_readers(nodes), producer={}, renamed={})
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
    producer: dict[str, onnx.NodeProto] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """Removed tensors, with the name of the tensor that replaces each."""

    def apply(self, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
        """Return the nodes after one pass; some of them may have lost their readers."""
        kept: list[onnx.NodeProto] = []
        for original in nodes:
            node = self._reading(original)
            if self._is_copy(node) and node.output[0] not in self.outputs:
                self.renamed[node.output[0]] = node.input[0]
                continue
            node = self._merged(node)
            self.producer.update(dict.fromkeys(node.output, node))
            kept.append(node)
        return kept

    def _reading(self, node: onnx.NodeProto) -> onnx.NodeProto:
        if not any(name in self.renamed for name in node.input):
            return node
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        changed.input[:] = [self.renamed.get(name, name) for name in node.input]
        return changed

    def _is_copy(self, node: onnx.NodeProto) -> bool:
        """Whether the first output equals the first input, and no other output is read."""
        others = any(name in self.readers or name in self.outputs for name in node.output[1:])
        if node.domain not in ("", "ai.onnx") or others or not node.input:
            return False
        if node.op_type in _COPIES:
            training = node.input[_DROPOUT_TRAINING] if len(node.input) > _DROPOUT_TRAINING else ""
            return not training or not bool(np.any(self.state.values.get(training, True)))
        before, after = self.state.types.get(node.input[0]), self.state.types[node.output[0]]
        return before == after and self._keeps_order(node, after.shape)

    def _keeps_order(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
        """Whether ``node``, whose output has its input's type, certainly leaves every element in place."""
        if node.op_type == "Transpose":
            permutation = attributes_of(node).get("perm", range(len(shape))[::-1])
            moved = [dim for dim in permutation if shape[dim] != 1]
            return all(one < other for one, other in pairwise(moved))
        if node.op_type == "Slice":
            steps = node.input[_SLICE_STEPS] if len(node.input) > _SLICE_STEPS else ""
            return not steps or bool(np.all(self.state.values.get(steps, -1) > 0))
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
