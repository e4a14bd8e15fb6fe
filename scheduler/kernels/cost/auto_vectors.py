"""Scalar loops that compilers compute in vectors of their own accord.

As LLVM does with innermost loops, and with copies that a loop was written out to: neighbouring iterations store
neighbours, and load neighbours or the same; none adds to what another one has stored, since sums of floating-point
numbers are not reordered. What is under a condition is computed under a mask.
"""

from dataclasses import replace

from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Loop, Node, Nodes, Statement


def in_vectors(reads: Reads, lanes: int) -> Reads:
    """Return a program with those of its scalar loops in vectors of ``lanes`` that compilers compute so."""
    vectors = _Vectors(reads, lanes)
    body = reads.program.body if lanes == 1 else vectors.nodes(reads.program.body)
    return Reads(reads.naive, replace(reads.program, body=body)) if vectors.are_new else reads


class _Vectors:
    def __init__(self, reads: Reads, lanes: int) -> None:
        self._reads, self._lanes = reads, lanes
        self.are_new = False
        """Whether any loop has been put in vectors."""

    def nodes(self, nodes: Nodes) -> Nodes:
        """Return ``nodes`` with vectors in place of innermost scalar loops around one statement, where they can be."""
        found: list[Node] = []
        for node in nodes:
            found += self._loop(node) if isinstance(node, Loop) else [self._other(node)]
        return tuple(found)

    def _other(self, node: Node) -> Node:
        return node if isinstance(node, Statement) else replace(node, body=self.nodes(node.body))

    def _loop(self, loop: Loop) -> list[Node]:
        (first, *others), conditions = loop.body, tuple[Condition, ...]()
        if isinstance(first, Guard) and len(first.body) == 1:
            conditions, (first,) = first.conditions, first.body
        is_scalar = loop.kind in ("serial", "unrolled") and loop.reach is None and not loop.fused and not loop.dealt
        if not isinstance(first, Statement) or others or not is_scalar or not self._is_along(loop, first):
            return [replace(loop, body=self.nodes(loop.body))]
        self.are_new = True
        vectors, rest = divmod(loop.extent, self._lanes)
        found: list[Node] = []
        if vectors:
            outer, inner = f"{loop.name} by vectors", f"{loop.name} in vectors"
            terms = (*([(outer, self._lanes)] if vectors > 1 else []), (inner, 1))
            body = _with(first, conditions, loop.name, Affine(0, terms))
            body = (Loop(inner, self._lanes, "vector", body),)
            found += [Loop(outer, vectors, loop.kind, body)] if vectors > 1 else body
        if rest:
            own = Affine(vectors * self._lanes, ((loop.name, 1),))
            found.append(Loop(loop.name, rest, loop.kind, _with(first, conditions, loop.name, own)))
        return found

    def _is_along(self, loop: Loop, statement: Statement) -> bool:
        """Whether iterations of a loop store neighbours, and load neighbours or the same."""
        if loop.extent < self._lanes:
            return False
        loads, stored, _ = self._reads.of(statement)
        strides = [dict(each.place.value.terms).get(loop.name, 0) for each in loads]
        is_known = all(loop.name not in each.place.unknown for each in (*loads, stored))
        is_plain = all(loop.name not in dict(limit.value.terms) for each in loads for limit in each.conditions)
        own = dict(stored.place.value.terms).get(loop.name, 0)
        return own == 1 and is_known and is_plain and all(each in (0, 1) for each in strides)


def _with(statement: Statement, conditions: tuple[Condition, ...], loop: str, value: Affine) -> tuple[Node, ...]:
    """Return a statement, under conditions, with another expression in place of a loop."""
    def put(expression: Affine) -> Affine:
        strides = dict(expression.terms)
        stride = strides.pop(loop, 0)
        return Affine(expression.offset, tuple(strides.items())) + value * stride

    own = replace(
        statement, element=tuple(map(put, statement.element)),
        reduced=tuple([(number, put(each)) for number, each in statement.reduced]),
        run=None if statement.run is None else put(statement.run),
        place=None if statement.place is None else put(statement.place),
    )  # fmt: skip
    limits = tuple([Condition(put(each.value), each.limit) for each in conditions])
    return (Guard(limits, (own,)),) if limits else (own,)
