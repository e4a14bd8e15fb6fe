"""GraphTurbo (OSDI '23): sub-graphs as large as the local buffers allow, run as instances that stay on chip.

Steps, one file each in ``scheduler/graphturbo``: SplitInfo (Algorithm 1), grouping (Algorithm 2), instances and their
order (Algorithm 3), core binding (Algorithm 4), placement with spilling (section 4.3); weights are fetched ahead and
layers overlap while the program is lowered (section 4.4). The options switch steps off as the paper's Fig. 15 does.
The readings of each algorithm, and what departs from it, are stated where it is implemented.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from fusion.plan import FusionPlan, Group, plan_from_groups
from hw_models import ClusteredDsa
from scheduler.device import DsaDevice
from scheduler.graphturbo.bound import bind_instances
from scheduler.graphturbo.core_binding import unbound_dims
from scheduler.graphturbo.exact_order import exact_order
from scheduler.graphturbo.grouping import Grouped, group_subgraphs
from scheduler.graphturbo.instances import InstanceGraph, split_into_instances
from scheduler.graphturbo.ordering import breadth_first, depth_first, heaviest_first, peak_live_bytes
from scheduler.graphturbo.placement import Capacity, place_pieces
from scheduler.layers import layers_by_pattern
from scheduler.occupancy import MOST_OPEN
from scheduler.schedule import Schedule, whole_needs
from scheduler.work import Layer
from workloads.graph import Graph
from workloads.loopnest import box_volume, full_box, intersect

_PIECES_SHARE = 0.6
"""Part of the global buffer that outputs may take; the rest is for tiles and weights on their way through it."""
_HEADROOMS = (0.0, 0.15, 0.3, 0.4, -0.25)
"""Shares of the local buffers that grouping leaves free, tried in turn; the plan that moves fewest bytes to and from
DDR is taken. Algorithm 1's footprint is that of one instance: it lacks the outputs of others that wait beside it,
halos, and parts that do not divide evenly; and it has in full what may be spilled. The first is the paper's own."""
_NEAR_LEAST = 1.1
"""A plan that moves at most this much more than any has to is not improved upon."""


_Annotation = Annotated[str, Field(pattern=r"^.+:[0-9]{1,3}$")]


def _listed(value: object) -> object:
    """Take a list apart that the command line has as one word."""
    return value.split(",") if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class GraphTurbo:
    """Sub-graph instance scheduling on scratchpads."""

    name: ClassVar[str] = "graphturbo"

    batches_per_cluster: PositiveInt | Literal["best"] | None = None
    """Images a cluster takes at once; ``best`` tries; None: its whole share of the batch (section 5.1)."""
    outputs: Literal["local", "global"] = "local"
    """Where outputs are kept as long as they fit: the local buffers, or (Fig. 15's first variant) the global one."""
    instances: bool = True
    """Split sub-graphs into instances (Fig. 15's third variant)."""
    instruction_scheduling: bool = True
    """Fetch the weights of later layers while earlier ones compute, and let tiles of several layers compute at the same
    time (section 4.4; Fig. 15's fourth variant)."""
    tiles: Literal["searched", "paper"] = "searched"
    """Tiles inside layers: those with the best estimate, or the paper's (section 4.1) where they fit: the two outermost
    dimensions cut as little as the local buffers allow."""
    order: Literal["best", "dfs", "bfs", "heaviest", "exact"] = "best"
    """``best`` takes whichever of ``dfs`` and ``bfs`` keeps fewer bytes alive between instances, ``dfs`` when they are
    equal. Not in the paper: ``heaviest`` footprint first; ``exact``, the order that keeps the fewest alive (CP-SAT)."""
    order_effort_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Deterministic solver seconds for ``exact``, which then takes the best order found."""
    spill: Literal["longest", "latest"] = "longest"
    """What leaves a buffer that is full: the tensor with the longest life (section 4.3), or, not in the paper, the one
    written last, which stays out of the way of those that are read often."""
    unbound: Annotated[tuple[_Annotation, ...], BeforeValidator(_listed)] = ()
    """Dimensions annotated as not to be bound to cores (section 3.4): ``conv1:2``, or ``*:2`` for all tensors."""
    most_recompute: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Operations that overlapping instances may repeat, as a share of the sub-graph's own."""

    def plan(self, graph: Graph, spec: ClusteredDsa) -> FusionPlan:
        return self.schedule(graph, spec, "fp16").plan

    def schedule(self, graph: Graph, spec: ClusteredDsa, dtype: str) -> Schedule:
        seen: set[tuple[object, ...]] = set()
        best: Schedule | None = None
        best_bytes = 0
        for headroom in _HEADROOMS:
            plan, grouped = self._grouped(graph, spec, headroom)
            cuts = tuple((group.sub.ops, group.split) for group in grouped)
            if best is not None and (cuts in seen or self._least_bytes(graph, grouped, cut=True) >= best_bytes):
                continue
            seen.add(cuts)
            schedule = self._scheduled(spec, dtype, plan, grouped)
            moved_bytes = off_chip_bytes(schedule)
            if best is None or moved_bytes < best_bytes:
                best, best_bytes = schedule, moved_bytes
            if best_bytes <= _NEAR_LEAST * self._least_bytes(graph, grouped, cut=False):
                break
        assert best is not None
        return best

    def _least_bytes(self, graph: Graph, grouped: Sequence[Grouped], *, cut: bool) -> int:
        """Return what goes to or from DDR at least: inputs and results once, weights once per instance if ``cut``."""
        least = sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))
        for group in grouped:
            layers = layers_by_pattern(graph, group.sub.ops)
            times = 1
            if cut and self.instances and group.split is not None and len(layers) > 1:
                times = group.split.factor
            least += times * sum(weights_read(layer, layer.sink.shape) for layer in layers)
        return least

    def instance_graph(self, graph: Graph, spec: ClusteredDsa) -> InstanceGraph:
        """Return the instances that are to be ordered, when grouping has the whole of the local buffers."""
        plan, grouped = self._grouped(graph, spec, _HEADROOMS[0])
        return self._split(plan, grouped)

    def _scheduled(
        self, spec: ClusteredDsa, dtype: str, plan: FusionPlan, grouped: Sequence[Grouped]
    ) -> Schedule:
        graph, parts = plan.graph, self._split(plan, grouped)
        bound = bind_instances(
            graph, parts, self._ordered(parts), spec.cores_per_cluster, unbound_dims(graph, self.unbound)
        )
        placed = place_pieces(bound.runs, bound.pieces, self._capacity(spec), bound.shared)
        return Schedule(
            graph, plan, dtype, bound.instances, placed, self.name, overlaps_layers=self.instruction_scheduling,
            paper_tiles=self.tiles == "paper",
        )  # fmt: skip

    def _grouped(self, graph: Graph, spec: ClusteredDsa, headroom: float) -> tuple[FusionPlan, list[Grouped]]:
        """Return the plan and, per group of the plan, what Algorithm 2 knows about it."""
        local_bytes = int(spec.cores_per_cluster * self._capacity(spec).local_bytes * (1 - headroom))
        found = group_subgraphs(graph, local_bytes, self.most_recompute)
        plan = plan_from_groups(graph, (Group(g.sub.ops, g.reason) for g in found))
        by_ops = {g.sub.ops: g for g in found}
        return plan, [by_ops[group.ops] for group in plan.groups]

    def _split(self, plan: FusionPlan, grouped: Sequence[Grouped]) -> InstanceGraph:
        return split_into_instances(plan, [g.split if self.instances else None for g in grouped])

    def _ordered(self, parts: InstanceGraph) -> Sequence[int]:
        producers, output_bytes = parts.producers, parts.output_bytes
        wide = breadth_first(range(len(parts.instances)), producers)
        if self.order == "bfs":
            return wide
        if self.order == "heaviest":
            return heaviest_first(wide, producers, output_bytes)
        deep = depth_first(wide, producers)
        if self.order == "dfs":
            return deep
        best = min(deep, wide, key=lambda order: peak_live_bytes(order, producers, output_bytes))
        if self.order == "exact":
            return exact_order(best, producers, output_bytes, self.order_effort_s).order
        return best

    def _capacity(self, spec: ClusteredDsa) -> Capacity:
        """Return what pieces may take: a share of the global buffer; the local one but for weights and room for a tile.

        The tile is one whose load takes as long as its start-up, because smaller ones mostly wait; it has at most half.
        """
        buffer = spec.local_buffer
        tile_bytes = DsaDevice(spec, spec.clusters).path_startup_bytes
        room = buffer.capacity_bytes - int(buffer.capacity_bytes * buffer.weight_window)
        shared = 0 if spec.global_buffer is None else int(spec.global_buffer.capacity_bytes * _PIECES_SHARE)
        return Capacity(
            room - min(tile_bytes, room // 2), shared, uses_local=self.outputs == "local",
            spills_longest=self.spill == "longest", apart_steps=MOST_OPEN if self.instruction_scheduling else 0,
        )  # fmt: skip


def weights_read(layer: Layer, extents: Sequence[int]) -> int:
    """Return the bytes of weights that ``layer`` reads for so much of its output: of a table, the rows looked up."""
    work, tensors = layer.tile_work(tuple(extents)), layer.graph.tensors
    return sum(size for name, size in work.operand_bytes.items() if tensors[name].role == "weight")


def off_chip_bytes(schedule: Schedule) -> int:
    """Return the bytes that one cluster moves to and from DDR if every run reads what it needs of it once."""
    tensors, pieces = schedule.graph.tensors, schedule.pieces
    total = sum(piece.size_bytes for piece in pieces if piece.scope == "ddr")
    for run in schedule.runs:
        total += weights_read(run.layer, [hi - lo for lo, hi in run.box])
        needs = whole_needs(run)
        for name in run.layer.inputs:
            if name not in needs or tensors[name].role == "weight":
                continue
            boxes = [full_box(tensors[name].shape)]
            if name in run.reads:
                boxes = [pieces[p].box for p in run.reads[name] if pieces[p].scope == "ddr"]
            met = (intersect(needs[name], box) for box in boxes)
            total += sum(box_volume(box) for box in met if box is not None) * tensors[name].element_bytes
    return total
