"""Fixed-pattern fusion: at most one complex operator per kernel with its followers, as in TVM's Relay.

The rule (TVM, OSDI '18, section 3; its fusion pass): operators are elementwise, broadcast, injective, reduction,
complex (convolution, matrix product, pooling) or opaque. An operator joins its immediate post-dominator if all
operators on the paths between are of a kind that may be fused: complex ones take elementwise followers, elementwise
ones go into anything that is not opaque, injective ones into injective ones. Kinds are derived from the loop nests.
Departures: no limit on the depth of a group, and operators of several outputs count as injective or opaque.
"""

from dataclasses import dataclass
from enum import IntEnum

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.operand_dtypes import operand_dtypes
from dsascape.workloads.subgraph import Subgraph


class Kind(IntEnum):
    """Relay's operator kinds, in its order."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    COMPLEX = 4
    OPAQUE = 8


_KIND_OF_MAPPING = {
    "elementwise": Kind.ELEMENTWISE,
    "broadcast": Kind.BROADCAST,
    "injective": Kind.INJECTIVE,
    "reduction": Kind.REDUCTION,
    "contraction": Kind.COMPLEX,
}


_REASONS = {
    Kind.ELEMENTWISE: "elementwise operators do not go into a complex one",
    Kind.BROADCAST: "elementwise operators do not go into a complex one",
    Kind.INJECTIVE: "injective operators go into injective ones only",
    Kind.REDUCTION: "a reduction ends its kernel",
    Kind.COMPLEX: "the next operator is not elementwise, or has its complex operator already",
}


def kind_of(op: Op) -> Kind:
    """Return the kind of ``op``, derived from its loop nests; opaque where a nest carries a dependence."""
    if any(nest.ordered for nest in op.nests):
        return Kind.OPAQUE
    kinds = [_KIND_OF_MAPPING[mapping_of(nest)] for nest in op.nests]
    if len(kinds) == 1:
        if kinds[0] is Kind.REDUCTION and _slides(op):
            return Kind.COMPLEX
        if kinds[0] is Kind.ELEMENTWISE and _broadcasts(op):
            return Kind.BROADCAST
        if kinds[0] is Kind.INJECTIVE and _scales(op):
            return Kind.BROADCAST
        return kinds[0]
    return Kind.INJECTIVE if max(kinds) <= Kind.INJECTIVE else Kind.OPAQUE


def _kind_in(graph: Graph, op: Op) -> Kind:
    """Return the kind of ``op``: a product that first widens its quantised operand for itself is a product."""
    *before, last = op.nests
    is_widened = before and mapping_of(last) == "contraction" and operand_dtypes(op, last, graph.tensors) is not None
    if is_widened and not any(nest.has_reduction for nest in before):
        return Kind.COMPLEX
    return kind_of(op)


def _slides(op: Op) -> bool:
    """Whether some input dimension is addressed by a space loop and a reduction loop together: a window."""
    nest = op.nests[0]
    return any(
        len({nest.loops[loop].reduction for loop, _ in index.terms}) > 1
        for read in nest.reads
        for index in read.indices
    )


def _scales(op: Op) -> bool:
    """Whether one operand has the output's layout, and the others vary along some dimensions: batch normalisation."""
    nest = op.nests[0]
    written = nest.write.indices
    if not any(read.indices == written and read.shape == nest.write.shape for read in nest.reads):
        return False
    moving = [[index for index in read.indices if index.terms or index.offset] for read in nest.reads]
    places = [[written.index(index) if index in written else -1 for index in indices] for indices in moving]
    return all(-1 not in place and place == sorted(place) for place in places)


def _broadcasts(op: Op) -> bool:
    nest = op.nests[0]
    return any(read.indices != nest.write.indices for read in nest.reads)


@dataclass(slots=True)
class _Cluster:
    """A set of operators being merged, with the highest kind among them."""

    ops: list[int]
    kind: Kind
    reason: str = ""
    into: "_Cluster | None" = None
    """Cluster that absorbed this one, if any."""

    def absorb(self, other: "_Cluster") -> None:
        """Take the operators of ``other``, which is a part of this cluster from now on."""
        fewer, more = sorted((self.ops, other.ops), key=len)
        more.extend(fewer)
        self.ops, other.into = more, self
        self.kind = max(self.kind, other.kind)


def fixed_pattern_plan(graph: Graph) -> FusionPlan:
    """Return the plan of Relay's rule for ``graph``."""
    return _Fuser(graph, list(range(len(graph.ops)))).run()


def fixed_pattern_of(analysis: Analysis) -> FusionPlan:
    """Return `fixed_pattern_plan` of the network of ``analysis``, in the form that ``analysis.of`` memoizes."""
    return fixed_pattern_plan(analysis.graph)


def fixed_pattern_layers(graph: Graph, ops: list[int]) -> list[list[int]]:
    """Return ``ops`` divided into layers by Relay's rule, in order: the layers of a GraphTurbo sub-graph."""
    plan_groups = _Fuser(graph, ops).clusters()
    return sorted((sorted(cluster.ops) for cluster in plan_groups), key=lambda ops: ops[-1])


class _Fuser:
    def __init__(self, graph: Graph, ops: list[int]) -> None:
        self._graph = graph
        self._ops = ops
        subgraph = Subgraph(graph, tuple(ops))
        self._kinds = {op: _kind_in(graph, graph.ops[op]) for op in ops}
        self._readers = subgraph.readers
        self._escapes = {graph.producer[name] for name in subgraph.escaping}
        self._parent: dict[int, int | None] = {}
        self._path_kind: dict[int, Kind] = {}
        self._depth: dict[int, int] = {}
        self._own_cluster = {op: _Cluster([op], self._kinds[op]) for op in ops}
        self._post_dominators()

    def run(self) -> FusionPlan:
        return plan_from_groups(self._graph, (Group(tuple(sorted(c.ops)), c.reason) for c in self.clusters()))

    def clusters(self) -> list[_Cluster]:
        for phase in (0, 1):
            for op in self._ops:
                self._try(op, phase)
        return list({id(cluster): cluster for cluster in map(self._cluster, self._ops)}.values())

    def _cluster(self, op: int) -> _Cluster:
        """Return the cluster that holds ``op`` at present."""
        cluster = own = self._own_cluster[op]
        while cluster.into is not None:
            cluster = cluster.into
        while own is not cluster:  # path compression
            own.into, own = cluster, own.into or cluster
        return cluster

    def _post_dominators(self) -> None:
        """Find the immediate post-dominator of every operator, and the highest kind on the paths to it."""
        for op in reversed(self._ops):
            readers = self._readers[op]
            parent: int | None = None
            kind = Kind.ELEMENTWISE
            if readers and op not in self._escapes:
                parent = readers[0]
                kind = max(self._edge_kind(op, reader) for reader in readers)
                for other in readers[1:]:
                    parent, climbed = self._meet(parent, other)
                    kind = max(kind, climbed)
                    if parent is None:
                        break
            self._parent[op] = parent
            self._path_kind[op] = kind
            self._depth[op] = 0 if parent is None else self._depth[parent] + 1

    def _meet(self, left: int | None, right: int | None) -> tuple[int | None, Kind]:
        """Return the nearest common post-dominator and the highest kind passed while climbing to it."""
        kind = Kind.ELEMENTWISE
        while left != right:
            if left is None or right is None:
                return None, Kind.OPAQUE
            if self._depth[left] >= self._depth[right]:
                kind, left = max(kind, self._path_kind[left]), self._parent[left]
            else:
                kind, right = max(kind, self._path_kind[right]), self._parent[right]
        return left, kind

    def _edge_kind(self, op: int, reader: int) -> Kind:
        """Return the reader's kind; a broadcasting reader that takes this operand as it is counts as elementwise."""
        kind = self._kinds[reader]
        if kind is Kind.BROADCAST:
            outputs = self._graph.ops[op].outputs
            nest = self._graph.ops[reader].nests[0]
            if all(r.indices == nest.write.indices for r in nest.reads if r.tensor in outputs):
                return Kind.ELEMENTWISE
        return kind

    def _try(self, op: int, phase: int) -> None:
        cluster = self._cluster(op)
        parent = self._parent[op]
        if parent is None:
            cluster.reason = cluster.reason or "its output leaves in several directions"
            return
        if cluster.kind is Kind.OPAQUE or self._cluster(parent).kind is Kind.OPAQUE:
            cluster.reason = "an opaque operator stands alone"
            return
        if self._cluster(parent) is cluster:
            return
        if self._may_join(op, parent, phase):
            self._merge(op, parent)
        elif cluster.kind is not Kind.INJECTIVE or phase == 1:
            cluster.reason = _REASONS[cluster.kind]

    def _may_join(self, op: int, parent: int, phase: int) -> bool:
        """Whether the operator's cluster may join its post-dominator's, by the kind of the cluster."""
        kind, path_kind = self._cluster(op).kind, self._path_kind[op]
        if kind is Kind.COMPLEX:
            elementwise = phase == 0 and path_kind is Kind.ELEMENTWISE
            return elementwise and self._path_allows(op, parent, Kind.BROADCAST, Kind.BROADCAST)
        if kind <= Kind.BROADCAST:
            into = path_kind <= Kind.INJECTIVE or path_kind is Kind.REDUCTION
            return into and self._path_allows(op, parent, Kind.INJECTIVE, Kind.COMPLEX)
        if kind is Kind.INJECTIVE:
            return phase == 1 and self._path_allows(op, parent, Kind.INJECTIVE, Kind.INJECTIVE)
        return False

    def _between(self, op: int, sink: int) -> list[int]:
        """Return the operators on all paths from ``op`` to ``sink``, exclusive."""
        between: dict[int, None] = {}
        stack = list(self._readers[op])
        while stack:
            place = stack.pop()
            if place != sink and place not in between:
                between[place] = None
                stack.extend(self._readers[place])
        return list(between)

    def _path_allows(self, op: int, sink: int, most_between: Kind, most_at_sink: Kind) -> bool:
        return self._cluster(sink).kind <= most_at_sink and all(
            self._cluster(place).kind <= most_between for place in self._between(op, sink)
        )

    def _merge(self, op: int, sink: int) -> None:
        """Merge ``op`` and all operators between into the cluster of ``sink``."""
        target = self._cluster(sink)
        for place in (op, *self._between(op, sink)):
            source = self._cluster(place)
            if source is not target:
                target.absorb(source)
