"""Kernels of an eager framework: one for each function that it calls, as PyTorch launches them.

A function is one kernel, though a file may state it as several operators: a linear layer with its bias, an activation
(GELU by its error function), attention with its scale, mask, softmax and the views that divide it into heads. All else
is one operator a kernel, as in `fusion.unfused`. Nothing here is fused across functions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.subgraph import Subgraph

EAGER = "eager"
"""Name of the policy that makes such plans."""
_ROWS_AND_KEYS = 2
"""Last dimensions of scores: queries and keys."""


def eager_plan(graph: Graph) -> FusionPlan:
    """Return one group per function of ``graph``; views join the producer of their tensor."""
    function_of: dict[int, int] = {}
    for find in (_attentions, _linears, _activations):
        for ops in find(graph):
            if not function_of.keys() & set(ops):
                function_of |= dict.fromkeys(ops, max(ops))
    ops_of: dict[int, list[int]] = {}
    owner: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        producer = graph.producer.get(op.inputs[0]) if op.is_view else None
        own = function_of.get(position)
        owner[position] = own if own is not None else position if producer is None else owner[producer]
        ops_of.setdefault(owner[position], []).append(position)
    return plan_from_groups(graph, (Group(tuple(ops), "policy: one function a kernel") for ops in ops_of.values()))


def _is_product(op: Op) -> bool:
    return mapping_of(op.nests[-1]) == "contraction"


def _only_reader(graph: Graph, position: int) -> int | None:
    """Return the one operator that reads what the operator at ``position`` writes; None if several do, or the user."""
    op = graph.ops[position]
    readers = {reader for name in op.outputs for reader in graph.consumers.get(name, ())}
    if len(readers) != 1 or any(name in graph.outputs for name in op.outputs):
        return None
    return readers.pop()


def _is_plain(op: Op) -> bool:
    """Whether an operator computes or moves elements one by one."""
    return all(mapping_of(nest) in ("elementwise", "broadcast", "injective") and not nest.ordered for nest in op.nests)


def _linears(graph: Graph) -> Iterator[Sequence[int]]:
    """Yield matrix products with the addition of a bias, a weight of one dimension."""
    for position, op in enumerate(graph.ops):
        reader = _only_reader(graph, position)
        if op.kind != "MatMul" or reader is None or graph.ops[reader].kind != "Add":
            continue
        others = [graph.tensors[name] for name in graph.ops[reader].inputs if name not in op.outputs]
        if all(each.role == "weight" and len(each.shape) == 1 for each in others):
            yield position, reader


def _activations(graph: Graph) -> Iterator[Sequence[int]]:
    """Yield operators that make one function of a tensor, with an exponential or the like and scalars alone."""
    for position, op in enumerate(graph.ops):
        if op.kind not in ("Erf", "Tanh", "Sigmoid"):
            continue
        ops = {position, *_scaled_before(graph, position)}
        while True:
            inputs = set(Subgraph(graph, tuple(sorted(ops))).inputs)
            behind = {reader for each in ops for name in graph.ops[each].outputs for reader in graph.consumers[name]}
            joining = [
                each for each in sorted(behind - ops)
                if _is_plain(graph.ops[each]) and _has_only(graph, graph.ops[each], ops, inputs)
            ]  # fmt: skip
            if not joining:
                break
            ops.add(joining[0])
        if len(ops) > 1 and Subgraph(graph, tuple(sorted(ops))).has_single_output:
            yield sorted(ops)


def _scaled_before(graph: Graph, position: int) -> Iterator[int]:
    """Yield the scaling by a scalar in front of an operator."""
    producer = graph.producer.get(graph.ops[position].inputs[0])
    if producer is not None and graph.ops[producer].kind in ("Div", "Mul") and (
        _only_reader(graph, producer) == position
    ):
        first, *others = [graph.tensors[name] for name in graph.ops[producer].inputs]
        if first.role != "weight" and all(each.elements == 1 for each in others):
            yield producer


def _has_only(graph: Graph, op: Op, ops: set[int], inputs: set[str]) -> bool:
    """Whether an operator reads results of ``ops``, what these read, and scalars alone."""
    made = {name for each in ops for name in graph.ops[each].outputs}
    return all(name in made or name in inputs or graph.tensors[name].elements == 1 for name in op.inputs)


def _attentions(graph: Graph) -> Iterator[Sequence[int]]:
    """Yield attentions with the movements into and out of heads.

    For a single query, as of a token that is decoded, libraries divide the keys among blocks and add up in another
    kernel: products and softmax stay apart.
    """
    for attention in attentions_of(graph):
        if attention.queries == 1:
            continue
        ops = set(attention.ops)
        for product in (attention.ops[0], attention.ops[-1]):
            ops |= _moved_before(graph, product, ops)
        behind = _only_reader(graph, attention.ops[-1])
        while behind is not None and _moves(graph.ops[behind]) and graph.ops[behind].kind != "Concat":
            ops.add(behind)
            behind = _only_reader(graph, behind)
        yield sorted(ops)


@dataclass(frozen=True, slots=True)
class Attention:
    """Two products around a softmax, with what lies between them."""

    ops: tuple[int, ...]
    """Positions of the operators, the products first and last."""
    queries: int


def attentions_of(graph: Graph) -> Iterator[Attention]:
    """Yield the attentions of ``graph``: those of one operator, and those that a file states as several."""
    for position, op in enumerate(graph.ops):
        shape = graph.tensors[op.outputs[0]].shape
        if not any(nest.running for nest in op.nests) or len(shape) < _ROWS_AND_KEYS:
            continue
        scores, last = _product_before(graph, position), _product_behind(graph, position)
        if scores is not None and last is not None:
            yield Attention((*reversed(scores), position, *last), shape[-_ROWS_AND_KEYS])


def _product_before(graph: Graph, position: int) -> list[int] | None:
    """Return what leads from a product to the operator at ``position``, the product last; None without one."""
    found: list[int] = []
    while True:
        producers = [graph.producer[name] for name in graph.ops[position].inputs if name in graph.producer]
        producers = [each for each in producers if _only_reader(graph, each) == position]
        if not producers:
            return None
        position = next((each for each in producers if _is_product(graph.ops[each])), producers[0])
        found.append(position)
        if _is_product(graph.ops[position]):
            return found
        if not _is_plain(graph.ops[position]):
            return None


def _product_behind(graph: Graph, position: int) -> list[int] | None:
    found: list[int] = []
    while True:
        reader = _only_reader(graph, position)
        if reader is None:
            return None
        found.append(reader)
        if _is_product(graph.ops[reader]):
            return found
        if not _is_plain(graph.ops[reader]):
            return None
        position = reader


def _moves(op: Op) -> bool:
    return _is_plain(op) and not any(nest.per_iteration or nest.per_output for nest in op.nests)


def _moved_before(graph: Graph, position: int, ops: set[int]) -> set[int]:
    """Return the movements and scalings whose only use is the product at ``position``."""
    found: set[int] = set()
    waiting = [position]
    while waiting:
        place = waiting.pop()
        for name in graph.ops[place].inputs:
            producer = graph.producer.get(name)
            if producer is None or producer in ops or _only_reader(graph, producer) != place:
                continue
            op = graph.ops[producer]
            scales = op.kind in ("Mul", "Div") and any(graph.tensors[each].elements == 1 for each in op.inputs)
            if (_moves(op) and op.kind != "Concat") or scales:
                found.add(producer)
                waiting.append(producer)
    return found
