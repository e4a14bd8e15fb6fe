"""Walk over a file's nodes that gives every tensor a static type and folds constants."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from dsascape.wording import did_you_mean
from dsascape.workloads.constants import MOST_FOLDED_BYTES, fold
from dsascape.workloads.decomposition import DECOMPOSED, NodeWriter
from dsascape.workloads.expansion import branch_body, function_body, reads_of
from dsascape.workloads.folded_dequantisation import DEQUANTISE, operands_of_products
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.node_order import needed_nodes, sorted_nodes
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.operand_dtypes import QUANTISED
from dsascape.workloads.operators import NOT_TAKEN, RULES, kind_of, load_extensions
from dsascape.workloads.operators.registry import Array, ShapeRule
from dsascape.workloads.walk_state import (
    ELEMENTS,
    MALFORMED,
    Infer,
    Typed,
    Walk,
    WalkState,
    attributes_of,
    dtype_of,
    typed,
    typed_values,
)

_DEEPEST = 8
"""Nesting depth to which functions and branches are expanded."""
_POOLS = ("MaxPool", "AveragePool", "LpPool")
_POOLS_WITHOUT_EMPTY_WINDOWS = 22
"""Opset from which no pool window begins in the padding behind the data; runtimes compute these shapes at any opset."""


class OperandAdapter(Protocol):
    """Adapts operators' operands in a walk at other sizes than the file's own."""

    def prepared(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return the operator with the operands that are decided before it is folded or typed."""

    def __call__(self, node: onnx.NodeProto, infer: Infer) -> tuple[onnx.NodeProto, dict[str, Typed]]:
        """Return the operator with its operands at these sizes, and the types of its outputs."""


@dataclass(frozen=True, slots=True)
class Rewalk:
    """Second walk over a file, at other sizes than the walk ``before``."""

    before: Walk
    new_adapter: Callable[[WalkState], OperandAdapter]
    """Makes the `OperandAdapter` of the second walk from its state, which grows as the walk proceeds."""


def walk_file(file: OnnxFile, inputs: Mapping[str, Typed], rewalk: Rewalk | None = None) -> Walk:
    """Return types, known values and run-time nodes of ``file`` at the types ``inputs``.

    ``rewalk``: how constants tied to the file's own sizes are adapted to those of ``inputs``. Raises ``WorkloadError``
    naming the node that is malformed or that cannot be typed.
    """
    own = {name for node in file.model.graph.node for name in node.output}
    own.update(inputs, file.weights, (entry.name for entry in file.model.graph.input))
    state = WalkState(file.where, dict(inputs), dict(file.constants), set(file.weights), frozenset(own))
    for tensor in file.model.graph.initializer:
        state.types[tensor.name] = typed(file.where, tensor.name, tensor.data_type, tensor.dims)
    for sparse in file.model.graph.sparse_initializer:
        name, element = sparse.values.name, sparse.values.data_type
        state.types[name] = typed(file.where, name, element, sparse.dims)
    for entry in file.model.graph.input:
        if entry.name not in state.types:
            state.types.update(typed_values([entry]))
    for name, given in inputs.items():
        if 0 in given.shape:  # an empty tensor has a known value
            state.values[name] = np.empty(given.shape, helper.tensor_dtype_to_np_dtype(given.element))
            state.weights.add(name)
    walker = Walker(file, state, rewalk)
    for node in sorted_nodes(file.where, needed_nodes(file.model.graph), state.types):
        try:
            walker.visit(node)
        except WorkloadError:
            raise
        except MALFORMED as error:
            raise state.error(node, f"is malformed: {type(error).__name__} {error}") from error
    nodes, of_weights = tuple(walker.nodes), tuple(walker.once)
    return Walk(state.types, state.values, frozenset(state.weights), nodes, of_weights=of_weights)


def walk_edited(
    file: OnnxFile, walk: Walk, replaced: Mapping[str, Sequence[onnx.NodeProto]], constants: Mapping[str, Array]
) -> Walk:
    """Return ``walk`` with nodes replaced by those listed under their first output; ``constants`` are new values."""
    state = WalkState(file.where, dict(walk.types), dict(walk.values), set(walk.weights))
    for name, value in constants.items():
        state.set_constant(name, value)
    nodes = [new for node in walk.nodes for new in replaced.get(node.output[0], (node,))]
    is_new = {new.output[0] for group in replaced.values() for new in group}
    for node in walk.nodes:
        if node.output[0] in replaced:
            for name in node.output:
                state.types.pop(name, None)
    written = {name for node in nodes for name in node.output}
    walker = Walker(file, state, None)
    for node in sorted_nodes(file.where, nodes, state.types.keys() - written):
        if node.output[0] in is_new:
            walker.visit(node)
        else:
            walker.nodes.append(node)
    once = (*walk.once, *walker.once)
    weights = frozenset(state.weights)
    unedited, of_weights = walk.unedited or walk.nodes, (*walk.of_weights, *walker.once)
    return Walk(state.types, state.values, weights, tuple(walker.nodes), once, unedited, of_weights)


class Walker:
    """Types every tensor of a file, in order."""

    def __init__(self, file: OnnxFile, state: WalkState, rewalk: Rewalk | None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.once: list[onnx.NodeProto] = []
        """Nodes that compute weights from weights of unknown value."""
        self._opset = file.opset
        self._opsets = list(file.model.opset_import)
        self._state = state
        self._adapter = rewalk.new_adapter(state) if rewalk else None
        self._room_bytes = MOST_FOLDED_BYTES
        self._computed: dict[tuple[str, str, tuple[str, ...], tuple[bytes, ...]], Sequence[str]] = {}
        self._written_out: set[str] = set()
        """First outputs of the nodes that others were written out as: these may be of a newer opset than the file's."""
        self._same: dict[str, str] = {}
        """Weights computed exactly like an earlier one, with the name of that one."""
        self._wanted = {name for node in file.model.graph.node for name in reads_of(node)}
        self._wanted.update(entry.name for entry in file.model.graph.output)
        self._multiplied = operands_of_products(file.model.graph.node)
        self._rewalk = rewalk
        self._walked = {node.output[0]: node for node in rewalk.before.nodes} if rewalk else {}
        """Nodes of the walk before by first output; it may have given them operands of another size."""
        self._recorded: Mapping[str, Typed] = (
            rewalk.before.types if rewalk else typed_values([*file.model.graph.value_info, *file.model.graph.output])
        )
        """Types stated in the file, or inferred by the walk before, for outputs that no rule can type."""

    def visit(self, node: onnx.NodeProto, depth: int = 0) -> None:
        """Record the outputs of ``node``; append it to ``nodes`` if it computes at run time."""
        state = self._state
        node = self._as_walked(self._checked(node))
        kind = kind_of(node.domain, node.op_type)
        if self._adapter is not None and kind not in DECOMPOSED:  # of those, the nodes that they become are prepared
            node = self._adapter.prepared(node)
        inputs = [name for name in node.input if name]
        if kind in ("Shape", "Size") and inputs:
            attributes = attributes_of(node)
            shape = state.types[inputs[0]].shape
            part = shape[attributes.get("start", 0) : attributes.get("end")]
            value = np.asarray(part if kind == "Shape" else np.prod(shape), np.int64)
            state.set_constant(node.output[0], value)
            return
        if self._folded(node, kind, inputs):
            return
        known_kind = kind in RULES or kind in NOT_TAKEN
        body = None if known_kind or depth >= _DEEPEST else self._body(node, kind)
        if body is not None:
            self._wanted.update(name for inner in body for name in reads_of(inner))
            for inner in body:
                self.visit(inner, depth + 1)
            return
        constant = all(name in state.weights for name in inputs) and not self._is_widened_for_product(node, kind)
        if constant and self._computed_before(node):
            return
        if self._adapter is not None:
            node, output_types = self._adapter(node, lambda changed: self._infer(changed, kind))
        else:
            output_types = self._infer(node, kind)
        state.types.update(output_types)
        for name, output in output_types.items():
            if 0 in output.shape:
                state.set_constant(name, np.empty(output.shape, helper.tensor_dtype_to_np_dtype(output.element)))
        if constant or all(0 in output.shape for output in output_types.values()):
            state.weights.update(name for name in node.output if name)
            self.once.append(node)
        else:
            self.nodes.append(node)

    def _is_widened_for_product(self, node: onnx.NodeProto, kind: str) -> bool:
        """Whether ``node`` dequantises an operand of a product: the operand stays as narrow as the file has it."""
        if kind != DEQUANTISE or node.output[0] not in self._multiplied:
            return False
        return dtype_of(node.input[0], self._state.types[node.input[0]].element) in QUANTISED

    def _folded(self, node: onnx.NodeProto, kind: str, inputs: Sequence[str]) -> bool:
        """Fold ``node`` and record the values of its outputs; return whether that was possible."""
        state = self._state
        if "::" in kind or not all(name in state.values for name in inputs):
            return False
        values = [state.values[name] for name in inputs]
        results = fold(node, attributes_of(node), values, self._opset, self._room_bytes)
        before = self._rewalk.before.values if self._rewalk else {}
        for name, value in zip(node.output, results or (), strict=False):
            same = name in before and np.array_equal(before[name], value) and before[name].dtype == value.dtype
            state.set_constant(name, before[name] if same else value)  # one array in memory, not one for each walk
            self._room_bytes -= value.nbytes
        return results is not None

    def _checked(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` with duplicate weights replaced by the first; raise ``WorkloadError`` if an output exists."""
        for name in node.output:
            if name and name in self._state.types:
                raise self._state.error(node, f"writes {name!r}, which exists already; a tensor is written once")
        if not any(name in self._same for name in node.input):
            return node
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        changed.input[:] = [self._same.get(name, name) for name in node.input]
        return changed

    def _computed_before(self, node: onnx.NodeProto) -> bool:
        """Whether an identical operator on the same weights was seen: a shared weight stays shared."""
        attributes = tuple(sorted(attribute.SerializeToString() for attribute in node.attribute))
        names: Sequence[str] = node.input
        if node.op_type != "Identity":
            key = (node.domain, node.op_type, tuple(node.input), attributes)
            names = self._computed.setdefault(key, node.output)
        if names is node.output:
            return False
        for name, first in zip(node.output, names, strict=False):
            if name in self._wanted and first not in self._state.types:
                return False
        for name, first in zip(node.output, names, strict=False):
            if first in self._state.types:
                self._same[name] = first
                self._state.types[name] = self._state.types[first]
                self._state.weights.add(name)
        return True

    def _body(self, node: onnx.NodeProto, kind: str) -> list[onnx.NodeProto] | None:
        """Return the nodes that ``node`` expands to (a branch, a function body); None if it is elementary."""
        if kind == "If":
            condition = self._state.values.get(node.input[0])
            if condition is None:
                raise self._state.error(
                    node,
                    "has a condition that is not known before the network runs; export one of its branches",
                )
            wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
            return branch_body(node, attributes_of(node)[wanted])
        if kind in DECOMPOSED:
            return self._decomposed(node, kind)
        return None if "::" in kind else function_body(node, self._state.types, self._opset)

    def _decomposed(self, node: onnx.NodeProto, kind: str) -> list[onnx.NodeProto]:
        """Return the nodes that ``node`` is written out as.

        Raises ``WorkloadError`` where it does not fit its inputs.
        """
        if "::" not in kind and _has_schema(kind):
            self._infer(node, kind)
        writer = NodeWriter(node, self._state, self._recorded)
        try:
            DECOMPOSED[kind](writer)
        except MALFORMED as error:
            raise self._state.error(node, f"does not fit its inputs: {error}") from error
        self._written_out.update(inner.output[0] for inner in writer.nodes)
        return writer.nodes

    def _infer(self, node: onnx.NodeProto, kind: str) -> dict[str, Typed]:
        """Return the types of the node's outputs: by the ONNX standard's rule or the registered one."""
        state = self._state
        broken = load_extensions() if "::" in kind and kind not in RULES else ()
        rule = RULES.get(kind)
        if rule is not None and rule.shapes is not None:
            return self._registered(node, kind, rule.shapes)
        if "::" in kind:
            raise state.error(
                node,
                f"is of the custom domain {node.domain!r}{did_you_mean(kind, [*RULES, *DECOMPOSED])}; export the"
                f" network with standard operators only, or register a loop nest for {kind!r} (see docs/operators.md)"
                + "".join(f"; {message}" for message in broken),
            )
        if kind in NOT_TAKEN:
            raise state.error(node, f"is not supported: {NOT_TAKEN[kind]}")
        opset = self._opset
        if node.output[0] in self._written_out:
            opset = schema_opset(kind, opset)
        try:
            schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset, domain="")
            if kind in _POOLS and self._opset < _POOLS_WITHOUT_EMPTY_WINDOWS:
                schema = onnx.defs.get_schema(node.op_type, _POOLS_WITHOUT_EMPTY_WINDOWS, "")
        except onnx.defs.SchemaError:
            raise state.error(node, f"is not an operator of ONNX opset {self._opset}{_hint(node.op_type)}") from None
        types = {name: state.types[name].proto for name in node.input if name}
        data = {
            name: numpy_helper.from_array(np.asarray(state.values[name], order="C"), name)
            for name in node.input
            if name in state.values
        }
        try:
            inferred = infer_node_outputs(schema, node, types, data, opset_imports=self._opsets)
        except (InferenceError, RuntimeError, ValueError, TypeError) as error:
            shapes = ", ".join(str(list(state.types[name].shape)) for name in node.input if name)
            text = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise state.error(node, f"does not fit its inputs {shapes}: {text}") from None
        named = [name for name in node.output if name]
        static = {name: self._static(node, name, inferred.get(name)) for name in named}
        return {name: typing for name, typing in static.items() if typing is not None}

    def _registered(self, node: onnx.NodeProto, kind: str, shapes: ShapeRule) -> dict[str, Typed]:
        try:
            given = shapes(self._state.context(node, kind, self._opset))
            outputs = {
                name: Typed(ELEMENTS[dtype], tuple(int(size) for size in shape))
                for name, (shape, dtype) in zip(node.output, given, strict=False)
            }
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise self._state.error(node, f"does not fit its inputs: {error}") from error
        return outputs

    def _static(self, node: onnx.NodeProto, name: str, inferred: onnx.TypeProto | None) -> Typed | None:
        """Return the type of output ``name``, inferred or recorded; None if it has neither and no node reads it."""
        shown = "of unknown rank"
        if inferred is not None and inferred.HasField("tensor_type"):
            kind = inferred.tensor_type
            dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
            if kind.HasField("shape") and all(size >= 0 for size in dims):
                try:
                    return Typed(kind.elem_type, tuple(dims))
                except ValueError as error:
                    raise self._state.error(node, f"writes {name!r}, which {error}") from None
            if kind.HasField("shape"):
                shown = str([dim.dim_value or dim.dim_param or "?" for dim in kind.shape.dim])
        recorded = self._recorded.get(name)
        if recorded is not None and self._as_before(node):
            return recorded
        if name not in self._wanted:
            return None
        raise self._state.error(
            node,
            f"writes {name!r}, whose shape {shown} is not known before the network runs;"
            " cut the network before it",
        )

    def _as_before(self, node: onnx.NodeProto) -> bool:
        """Whether the operands of ``node`` have the types of the walk before, if this one is not the first."""
        types = self._state.types
        return self._rewalk is None or all(
            types[name] == self._rewalk.before.types.get(name) for name in node.input if name
        )

    def _as_walked(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return ``node`` with the constants that the walk before substituted for the file's."""
        walked = self._walked.get(node.output[0])
        if self._rewalk is None or walked is None or walked.op_type != node.op_type:
            return node
        before, state = self._rewalk.before, self._state
        for name in walked.input:
            if name and name not in state.types:
                state.types[name] = before.types[name]
                state.weights.add(name)
                if name in before.values:
                    state.values[name] = before.values[name]
        return walked


def schema_opset(kind: str, opset: int) -> int:
    """Return ``opset``, or the opset of the newest version of ``kind`` where it came later than that."""
    try:
        onnx.defs.get_schema(kind, max_inclusive_version=opset, domain="")
    except onnx.defs.SchemaError:
        return int(onnx.defs.get_schema(kind, domain="").since_version) if _has_schema(kind) else opset
    return opset


def _has_schema(kind: str) -> bool:
    """Whether the standard has an operator ``kind`` at any opset."""
    try:
        onnx.defs.get_schema(kind, domain="")
    except onnx.defs.SchemaError:
        return False
    return True


def _hint(op_type: str) -> str:
    """Return what to say of a standard operator that an opset lacks: since which it is there, or what may be meant."""
    first = {each.name: each.since_version for each in onnx.defs.get_all_schemas_with_history() if not each.domain}
    return f"; it is one from {first[op_type]} on" if op_type in first else did_you_mean(op_type, sorted(first))
