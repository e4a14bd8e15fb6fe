"""Mutable network during rewriting: its operators, their readers and their costs.

Operators with equal kind, attributes and operands are merged: common sub-expressions are eliminated for the whole
network at once, where the paper does so while it generates the code of a block.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.fusion.dnnfusion.rewriting.rules import FRAMES
from dsascape.fusion.dnnfusion.rewriting.terms import CHAINS
from dsascape.workloads.edits import Constant, Edit, Node
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.loopnest import Operations
from dsascape.workloads.source import Drafted, Source

_RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")
_POWERS = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal"}


@dataclass(slots=True)
class _Placed:
    """An operator, with the output of the file's operator that it is or that it replaces (``place``)."""

    node: Node
    place: str
    operations: Operations
    is_new: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Saved:
    """Savings of a replacement; fewer operations rank before fewer elements moved."""

    flops: int
    elements: int
    """Number of elements that operators no longer read or write."""

    @property
    def first(self) -> tuple[int, int]:
        """Sort key that puts the largest savings first."""
        return -self.flops, -self.elements

    def __bool__(self) -> bool:
        return (self.flops, self.elements) > (0, 0)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replacement of one operator: new operators, in order, and the tensor that stands for its output."""

    root: str
    output: str
    nodes: tuple[tuple[Node, Drafted], ...]
    constants: tuple[Constant, ...]
    saved: Saved


class Network:
    """Operators of a network by output; those that `source_of` cannot represent only count as readers."""

    def __init__(self, source: Source) -> None:
        graph = source.graph
        self.results = graph.results
        self.scalars = dict(source.scalars)
        self.shape = {name: tensor.shape for name, tensor in graph.tensors.items()}
        self.weights = {name for name, tensor in graph.tensors.items() if tensor.role == "weight"}
        self._draft = source.draft()
        self._writer: dict[str, _Placed] = {}
        self._readers: dict[str, dict[str, None]] = {}
        self._given: dict[str, Node] = {}
        """Operators of the file by output."""
        self._fixed: set[str] = set()
        """Tensors read by an operator whose operands cannot be changed."""
        self._equal: dict[object, str] = {}
        self._places: dict[str, list[str]] = {}
        self._constants: dict[str, Constant] = {}
        self._touched: set[str] = set()
        self._names = 0
        self._drafted: dict[object, tuple[Drafted | None, str]] = {}
        """Memo by operator and operand types: the draft (None: misfit), and the output of the first one like it."""
        for op, node in zip(graph.ops, source.nodes, strict=True):
            if node is None or not node.outputs[0] or any(op.outputs[0] == name for name in node.outputs[1:]):
                self._fixed.update(op.inputs)
                continue
            self._enter(_Placed(node, node.outputs[0], op.operations))
            self._given.update(dict.fromkeys(node.outputs, node))
        self._merge_equal()

    # Queries of rules.

    def node(self, name: str) -> Node | None:
        """Return the operator whose only output is ``name``; None if there is no such, or it cannot be represented."""
        placed = self._writer.get(name)
        return None if placed is None or len(placed.node.outputs) > 1 else placed.node

    def views(self, name: str) -> Iterable[tuple[str, tuple[str, ...], Node]]:
        """Yield (kind, operands, node) of the operator that writes ``name``, for each kind that it is equivalent to."""
        node = self.node(name)
        if node is None:
            return
        yield node.kind, node.inputs, node
        if node.kind == "Mul" and node.inputs[0] == node.inputs[1]:
            yield "Square", node.inputs[:1], node
        if node.kind == "Pow" and self.scalars.get(node.inputs[1]) in _POWERS and not self.shape[node.inputs[1]]:
            yield _POWERS[self.scalars[node.inputs[1]]], node.inputs[:1], node
        if node.kind == "Div" and self.scalars.get(node.inputs[0]) == 1.0 and not self.shape[node.inputs[0]]:
            yield "Reciprocal", node.inputs[1:], node

    def chain(self, name: str, kind: str) -> tuple[str, ...]:
        """Return the operands of the largest sum or product ending in ``name``; intermediates have one reader."""
        operands, waiting = [], [name]
        while waiting:
            current = waiting.pop()
            node = self.node(current)
            between = current == name or (len(self.readers(current)) == 1 and current not in self.results)
            if node is not None and node.kind == kind and between:
                waiting += reversed(node.inputs)
            else:
                operands.append(current)
        return tuple(operands)

    def readers(self, name: str) -> tuple[str, ...]:
        """Return the first outputs of operators that read ``name``, and ``name`` itself if it is fixed."""
        fixed = (name,) if name in self._fixed else ()
        return (*self._readers.get(name, ()), *fixed)

    def operands(self, name: str) -> Mapping[str, str]:
        """Return the present operand per original one of the file's operator writing ``name``; empty if it is gone."""
        placed = self._writer.get(name)
        if placed is None or placed.is_new:
            return {}
        given = self._given[name]
        return dict(zip(given.inputs, placed.node.inputs, strict=True))

    def is_float(self, name: str) -> bool:
        """Whether a tensor holds floating-point numbers."""
        return self._draft.is_float(name)

    def element_type(self, name: str) -> int:
        """Return the ONNX element type of a tensor."""
        return self._draft.element_type(name)

    def outputs(self) -> tuple[str, ...]:
        """Return the outputs of all represented operators, those of the file first, in file order."""
        return tuple(self._writer)

    # Changes by rules.

    def saved(self, root: str, output: str, new: Sequence[tuple[Node, Drafted]]) -> Saved:
        """Return the cost of the operators removed by replacing ``root`` with ``output``, minus that of the ``new``."""
        gone = moved = 0
        change = {output: 1}  # readers of the root
        for node, _ in new:
            for name in set(node.inputs):
                change[name] = change.get(name, 0) + 1
        waiting = [root]
        while waiting:
            placed = self._writer.get(waiting.pop())
            if placed is None or len(placed.node.outputs) > 1:
                continue
            gone += placed.operations.flops
            moved += self._moved(placed.node)
            for name in set(placed.node.inputs):
                change[name] = change.get(name, 0) - 1
                if len(self.readers(name)) + change[name] == 0 and name not in self.results:
                    waiting.append(name)
        for node, drafted in new:
            gone -= drafted.operations.flops
            moved -= 0 if drafted.computed_once else self._moved(node)
        return Saved(gone, moved)

    def _moved(self, node: Node) -> int:
        """Return the elements that an operator reads and writes; an operand used twice counts twice."""
        return sum(self.elements(name) for name in (*node.inputs, *node.outputs) if name in self.shape)

    def can_be_called(self, root: str, output: str) -> bool:
        """Whether readers of ``root`` can be made to read ``output``."""
        return root not in self.results and root not in self._fixed and output != root

    def apply(self, chosen: Replacement) -> set[str]:
        """Apply a replacement; return the tensors whose operator or readers have changed."""
        self._touched = {chosen.root, chosen.output}
        for constant in chosen.constants:
            self._constants[constant.name] = constant
        place = self._writer[chosen.root].place
        slot = self._places[place]
        for node, drafted in chosen.nodes:
            is_last = node.outputs[0] == chosen.output
            name = chosen.root if is_last else node.outputs[0]
            if is_last:
                self._leave(chosen.root, keeps_place=True)
            else:
                slot.insert(slot.index(chosen.root), name)
            self._enter(_Placed(replace(node, outputs=(name,)), place, drafted.operations, is_new=True), slotted=True)
        if not any(node.outputs[0] == chosen.output for node, _ in chosen.nodes):
            self._call(chosen.root, chosen.output)
        self._drop_unread()
        return self._touched

    def _call(self, old: str, new: str) -> None:
        """Make all readers of ``old`` read ``new``."""
        for reader in tuple(self._readers.get(old, ())):
            placed = self._writer[reader]
            inputs = tuple(new if name == old else name for name in placed.node.inputs)
            self._leave(reader, keeps_place=True)
            self._enter(replace_node(placed, inputs), slotted=True)
        self._touched |= {old, new}

    def _enter(self, placed: _Placed, *, slotted: bool = False) -> None:
        node = placed.node
        name = node.outputs[0]
        for output in node.outputs:
            if output:
                self._writer[output] = placed
        for operand in set(node.inputs):
            self._readers.setdefault(operand, {})[name] = None
            self._touched.add(operand)
        self._touched.add(name)
        if not slotted:
            self._places[placed.place] = [name]
        key = key_of(node)
        if key is not None:
            self._equal.setdefault(key, name)

    def _leave(self, name: str, *, keeps_place: bool = False) -> None:
        placed = self._writer[name]
        for output in placed.node.outputs:
            self._writer.pop(output, None)
        for operand in set(placed.node.inputs):
            self._readers[operand].pop(name, None)
            self._touched.add(operand)
        key = key_of(placed.node)
        if key is not None and self._equal.get(key) == name:
            del self._equal[key]
        if not keeps_place:
            self._places[placed.place].remove(name)

    def _drop_unread(self) -> None:
        waiting = sorted(self._touched)
        while waiting:
            name = waiting.pop()
            placed = self._writer.get(name)
            if placed is None or len(placed.node.outputs) > 1 or name in self.results or self.readers(name):
                continue
            self._leave(name)
            waiting += sorted(set(placed.node.inputs))

    def _merge_equal(self) -> None:
        """Redirect readers of each operator to the first operator that is equal to it."""
        for name in tuple(self._writer):
            placed = self._writer.get(name)
            key = None if placed is None else key_of(placed.node)
            first = name if key is None else self._equal[key]
            if first != name and self.can_be_called(name, first):
                self._call(name, first)
        self._drop_unread()

    def equal_to(self, node: Node) -> str | None:
        """Return the output of an existing operator equal to ``node``, None if there is none."""
        key = key_of(node)
        return None if key is None else self._equal.get(key)

    def fresh_name(self, root: str) -> str:
        """Return a name that no tensor has."""
        self._names += 1
        return f"{root}:rewritten{self._names}"

    def drafted(self, node: Node) -> Drafted | None:
        """Return the draft of ``node``, None if its operands do not fit; memoized by operand types."""
        (output,) = node.outputs
        if all(name in self.weights for name in node.inputs):
            draft = self._tried(node)
        else:
            looks = [(self.shape.get(name), name in self.weights, self.is_float(name)) for name in node.inputs if name]
            values = node.inputs[1:] if node.kind in FRAMES else ()
            key = node.kind, node.attributes, tuple(looks), values
            if key not in self._drafted:
                self._drafted[key] = self._tried(node), output
            draft, like = self._drafted[key]
            if draft is not None and like != output:
                self._draft.add_like(output, like)
        if draft is None:
            return None
        self.shape[output] = draft.shape
        if draft.computed_once:
            self.weights.add(output)
        return draft

    def _tried(self, node: Node) -> Drafted | None:
        try:
            return self._draft.add(node)
        except WorkloadError:
            return None

    def add_constant(self, constant: Constant) -> None:
        """Add a constant of one element, to be read by operators drafted after it."""
        self._draft.add_constant(constant)
        self.shape[constant.name] = ()
        self.weights.add(constant.name)
        self.scalars[constant.name] = constant.value

    def elements(self, name: str) -> int:
        """Return the number of elements of a tensor."""
        return math.prod(self.shape[name])

    def edits(self, original: Source) -> tuple[Edit, ...]:
        """Return the edits that turn ``original`` into this network."""
        changed = []
        for node in original.nodes:
            slot = () if node is None else self._places.get(node.outputs[0], ())
            nodes = tuple(self._writer[name].node for name in slot)
            if node is not None and nodes and nodes != (node,):
                if nodes[-1].outputs[0] != node.outputs[0]:
                    nodes = (*nodes, node)  # unread by now, except by others that are unread
                read = {name for new in nodes for name in new.inputs}
                constants = tuple(constant for name, constant in self._constants.items() if name in read)
                changed.append(Edit(node.outputs[0], nodes, constants))
        return tuple(changed)


def replace_node(placed: _Placed, inputs: tuple[str, ...]) -> _Placed:
    """Return the operator with operands ``inputs``."""
    return replace(placed, node=replace(placed.node, inputs=inputs))


def key_of(node: Node) -> object | None:
    """Return a key that is equal for operators that compute the same; None for random ones and several outputs."""
    if len(node.outputs) > 1 or node.kind.startswith(_RANDOM):
        return None
    inputs = tuple(sorted(node.inputs)) if node.kind in CHAINS else node.inputs
    return node.kind, node.attributes, inputs
