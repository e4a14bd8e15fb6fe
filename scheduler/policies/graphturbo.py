"""GraphTurbo (OSDI '23): sub-graphs as large as the local buffers allow, run as instances that stay on chip.

Steps, one file each in ``scheduler/graphturbo``: SplitInfo (Algorithm 1), grouping (Algorithm 2), instances and their
order (Algorithm 3). Each layer is bound to cores by its own plain binding (section 3.4); outputs stay in the local
buffers where they fit for as long as they live, else in the global buffer, else in DDR.

Departures: binding is not propagated between instances (Algorithm 4), layers do not overlap (section 4.4), and nothing
is spilled once it has its place (section 4.3); the readings of Algorithm 1 are stated where it is implemented.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fusion.plan import FusionPlan, Group, plan_from_groups
from hw_models import ClusteredDsa
from scheduler.assemble import layer_binding, stored
from scheduler.graphturbo.grouping import Grouped, group_subgraphs
from scheduler.graphturbo.instances import InstanceGraph, split_into_instances
from scheduler.graphturbo.ordering import breadth_first, depth_first, peak_live_bytes
from scheduler.graphturbo.placement import Capacity, place_pieces
from scheduler.schedule import Instance, LayerRun, Piece, Schedule
from workloads.graph import Graph
from workloads.loopnest import intersect

_STAGING_SHARE = 0.5
"""Part of the global buffer that stays free for tiles on their way between DDR and the local buffers."""

_HEADROOMS = (0.0, 0.15, 0.3)
"""Shares of the local buffers that grouping leaves free, tried in turn until nothing is spilled: halos that cores
exchange, and parts that do not divide evenly, are not in Algorithm 1's footprint."""


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GraphTurbo:
    """Sub-graph instance scheduling on scratchpads."""

    name: ClassVar[str] = "graphturbo"

    order: Literal["best", "dfs", "bfs"] = "best"
    """``best`` takes whichever of both keeps fewer bytes alive between instances, ``dfs`` when they are equal."""
    instruction_scheduling: bool = True
    """Fetch the weights of later layers while earlier ones compute (section 4.4)."""
    most_recompute: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Operations that overlapping instances may repeat, as a share of the sub-graph's own."""

    def plan(self, graph: Graph, spec: ClusteredDsa) -> FusionPlan:
        return self.schedule(graph, spec, "fp16").plan

    def schedule(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> Schedule:
        best: Schedule | None = None
        for headroom in _HEADROOMS:
            candidate = self._scheduled(graph, spec, dtype, headroom)
            if best is None or off_chip_bytes(candidate) < off_chip_bytes(best):
                best = candidate
            if not spilled_bytes(candidate):
                break
        assert best is not None
        return best

    def _scheduled(self, graph: Graph, spec: ClusteredDsa, dtype: str, headroom: float) -> Schedule:
        plan, grouped = self._grouped(graph, spec, headroom)
        parts = split_into_instances(plan, [g.split for g in grouped])
        order = self._ordered(parts)
        runs, pieces = _bound(graph, parts, order, spec.cores_per_cluster)
        placed = place_pieces([run for number in order for run in runs[number]], pieces, _capacity(spec))
        instances = tuple(
            Instance(_name(plan, parts, number), parts.instances[number].group, tuple(runs[number])) for number in order
        )
        return Schedule(graph, plan, dtype, instances, placed, self.name, self.instruction_scheduling)

    def _grouped(self, graph: Graph, spec: ClusteredDsa, headroom: float) -> tuple[FusionPlan, list[Grouped]]:
        """Return the plan and, per group of the plan, what Algorithm 2 knows about it."""
        local_bytes = int(spec.cores_per_cluster * _capacity(spec).local_bytes * (1 - headroom))
        found = group_subgraphs(graph, local_bytes, self.most_recompute)
        plan = plan_from_groups(graph, (Group(g.sub.ops, g.reason) for g in found))
        by_ops = {g.sub.ops: g for g in found}
        return plan, [by_ops[group.ops] for group in plan.groups]

    def _ordered(self, parts: InstanceGraph) -> list[int]:
        visit = breadth_first(range(len(parts.instances)), parts.producers)
        if self.order == "bfs":
            return visit
        deep = depth_first(visit, parts.producers)
        if self.order == "dfs":
            return deep
        return min(deep, visit, key=lambda order: peak_live_bytes(order, parts.producers, parts.output_bytes))


def _capacity(spec: ClusteredDsa) -> Capacity:
    """Return what pieces may take: the local buffer without its weight window, half the global buffer."""
    window = int(spec.local_buffer.capacity_bytes * spec.local_buffer.weight_window)
    shared = 0 if spec.global_buffer is None else int(spec.global_buffer.capacity_bytes * _STAGING_SHARE)
    return Capacity(spec.local_buffer.capacity_bytes - window, shared)


def spilled_bytes(schedule: Schedule) -> int:
    """Return the bytes of activations that go to DDR although they are read again."""
    runs = (run for instance in schedule.instances for run in instance.runs)
    read = {piece for run in runs for pieces in run.reads.values() for piece in pieces}
    return sum(p.size_bytes for n, p in enumerate(schedule.pieces) if p.scope == "ddr" and n in read)


def off_chip_bytes(schedule: Schedule) -> int:
    """Return the bytes that one cluster moves to and from DDR: weights per run, pieces once per write and reader."""
    tensors, total = schedule.graph.tensors, 0
    for instance in schedule.instances:
        for run in instance.runs:
            total += sum(tensors[n].size_bytes for n in run.layer.inputs if tensors[n].role == "weight")
            for pieces in run.reads.values():
                total += sum(schedule.pieces[p].size_bytes for p in pieces if schedule.pieces[p].scope == "ddr")
    return total + sum(p.size_bytes for p in schedule.pieces if p.scope == "ddr")


def _name(plan: FusionPlan, parts: InstanceGraph, number: int) -> str:
    instance = parts.instances[number]
    first = plan.graph.ops[plan.groups[instance.group].ops[0]].name
    return f"{first}..{len(plan.groups[instance.group].ops)} #{instance.index}"


def _bound(
    graph: Graph, parts: InstanceGraph, order: list[int], cores: int
) -> tuple[dict[int, list[LayerRun]], list[Piece]]:
    """Return the layer runs of every instance, bound to cores, and the pieces they write (all still in DDR)."""
    pieces: list[Piece] = []
    holding: dict[str, list[int]] = {}
    runs: dict[int, list[LayerRun]] = {}
    for number in order:
        instance = parts.instances[number]
        runs[number] = []
        own: dict[str, int] = {}
        for part in instance.parts:
            binding = layer_binding(part.layer, part.box, cores)
            reads = {}
            for name, box in part.needs.items():
                held = [own[name]] if name in own else holding.get(name, [])
                reads[name] = tuple(p for p in held if intersect(pieces[p].box, box) is not None)
            written = []
            for name in part.layer.outputs:
                if name in instance.writes:
                    written.append(len(pieces))
                    own[name] = len(pieces)
                    pieces.append(stored(graph, name, instance.writes[name], "ddr", binding))
            runs[number].append(LayerRun(part.layer, part.box, binding, reads, tuple(written)))
        for name, piece in own.items():
            holding.setdefault(name, []).append(piece)
    return runs, pieces
