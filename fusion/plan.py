"""Fusion plan: the groups of operators that share a kernel."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from dsascape.wording import count
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Operations
from dsascape.workloads.subgraph import Subgraph


class FusionError(ValueError):
    """A plan that is inconsistent, or that cannot be built from the given groups."""


@dataclass(frozen=True, slots=True)
class Split:
    """Split of a group into ``factor`` instances, along dimension ``dim`` of its last operator's first output."""

    dim: int
    factor: int


@dataclass(frozen=True, slots=True)
class Group:
    """Operators of one kernel (ascending positions in the graph), and the reason why the group took no more."""

    ops: tuple[int, ...]
    boundary_reason: str = ""
    split: Split | None = None
    """Split into instances, each a launch of its own; None if the group is whole."""

    @property
    def instances(self) -> int:
        """Launches of the group: its instances, or one."""
        return 1 if self.split is None else self.split.factor


@dataclass(frozen=True)
class FusionPlan:
    """Partition of a graph's operators into groups, in an order in which their kernels can run."""

    graph: Graph
    groups: tuple[Group, ...]
    scheduled_by: str = ""
    """Policy that schedules the plan, if it is not the one that made it."""
    rewritten: bool = False
    """Whether the planning policy itself rewrote the given network into ``graph``, rather than an earlier stage."""
    origin: str = ""
    """Origin of the plan, beyond the policy that made it; empty if there is nothing to add."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Hash of all fields but the graph."""
        return hash((self.groups, self.scheduled_by, self.rewritten, self.origin))

    @cached_property
    def group_of(self) -> Mapping[int, int]:
        """Position of the group that holds each operator."""
        return {op: position for position, group in enumerate(self.groups) for op in group.ops}

    @cached_property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """Operators of each group as a `Subgraph`."""
        return tuple(Subgraph(self.graph, group.ops) for group in self.groups)

    def outputs(self, group: int) -> tuple[str, ...]:
        """Return the stored tensors that leave the group; a view counts as the tensor behind it."""
        return self.subgraphs[group].stored_outputs

    def inputs(self, group: int) -> tuple[str, ...]:
        """Return the stored tensors read from outside, weights included."""
        return self.subgraphs[group].stored_inputs

    def is_kernel(self, group: int) -> bool:
        """Whether the group needs a kernel; groups of views only do not."""
        return not self.subgraphs[group].is_view

    @cached_property
    def kernels(self) -> int:
        """Number of groups that need a kernel."""
        return sum(self.is_kernel(group) for group in range(len(self.groups)))

    @cached_property
    def intermediate_bytes(self) -> int:
        """Bytes of the tensors that kernels pass to each other or out of the network, each counted once."""
        kernels = (group for group in range(len(self.groups)) if self.is_kernel(group))
        names = {name for group in kernels for name in self.outputs(group)}
        return sum(self.graph.tensors[name].size_bytes for name in names)

    @property
    def operations(self) -> Operations:
        """Arithmetic of the whole network."""
        return self.graph.operations

    def __str__(self) -> str:
        origin = f"; {self.origin}" if self.origin else ""
        lines = [f"plan of {self.graph.name}: {count(self.kernels, 'kernel')}{origin}"]
        for group in self.groups:
            names = ", ".join(self.graph.ops[position].name for position in group.ops)
            lines.append(f"  [{names}]" + (f"  # {group.boundary_reason}" if group.boundary_reason else ""))
        return "\n".join(lines)


def unfused_intermediate_bytes(graph: Graph) -> int:
    """Return the bytes of all operator outputs, views excepted: the intermediate bytes without fusion."""
    return sum(graph.tensors[name].size_bytes for op in graph.ops if not op.is_view for name in op.outputs)


def plan_from_groups(graph: Graph, groups: Iterable[Group]) -> FusionPlan:
    """Return the plan with ``groups`` in topological order, the earliest operator first where there is a choice.

    Raises ``FusionError`` if the groups depend on each other cyclically.
    """
    listed = list(groups)
    owner = {op: position for position, group in enumerate(listed) for op in group.ops}
    waiting: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(listed)), ()))
    for position, op in enumerate(graph.ops):
        for name in op.inputs:
            producer = graph.producer.get(name)
            if producer is not None and owner[producer] != owner[position]:
                waiting.add(owner[position], owner[producer])
    try:
        waiting.prepare()
    except CycleError as error:
        raise FusionError(f"{graph.name}: groups of the plan depend on each other in a cycle") from error
    order: list[Group] = []
    ready: list[tuple[int, int]] = []
    while waiting.is_active():
        for position in waiting.get_ready():
            heappush(ready, (listed[position].ops[-1], position))
        _, first = heappop(ready)
        order.append(listed[first])
        waiting.done(first)
    return FusionPlan(graph, tuple(order))


def violations(plan: FusionPlan) -> list[str]:
    """Return a message per violation: operators missing or in two groups, groups empty or out of order; else empty."""
    graph, messages = plan.graph, []
    seen: dict[int, int] = {}
    for position, group in enumerate(plan.groups):
        if not group.ops:
            messages.append(f"group {position} is empty")
        for op in group.ops:
            if op in seen:
                messages.append(f"operator {op} is in groups {seen[op]} and {position}")
            seen[op] = position
    missing = [op for op in range(len(graph.ops)) if op not in seen]
    messages += [f"operator {op} ({graph.ops[op].name}) is in no group" for op in missing]
    if messages:
        return messages
    for position, reader in enumerate(graph.ops):
        for name in reader.inputs:
            producer = graph.producer.get(name)
            if producer is not None and seen[producer] > seen[position]:
                messages.append(f"group {seen[position]} reads {name!r} of group {seen[producer]}, which runs later")
    return messages
