"""Instances in order, bound to cores, with the tensor slices that they write, before placement of the slices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import stored
from dsascape.scheduler.dsa.deciding.pinned_memories import pinned_memories
from dsascape.scheduler.dsa.graphturbo.core_binding import Reading, Unbound, bind_runs
from dsascape.scheduler.dsa.graphturbo.placement import PinnedMemory, Placement
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads, reads_of
from dsascape.scheduler.dsa.pins import pinned_binding
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.schedule.schedule import Instance, LayerRun, TensorSlice
from dsascape.scheduler.graphturbo.instances import InstanceGraph, Part
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import intersect


@dataclass(frozen=True)
class BoundInstances:
    """Instances bound to cores, and their slices; ``mismatched``: slices whose readers need different bindings."""

    instances: tuple[Instance, ...]
    slices: tuple[TensorSlice, ...]
    mismatched: frozenset[int]
    memories: Mapping[int, PinnedMemory] = field(default_factory=dict)
    """Memories that the user fixes, by slice."""

    @cached_property
    def runs(self) -> tuple[LayerRun, ...]:
        """All layer runs in execution order."""
        return tuple([run for instance in self.instances for run in instance.runs])

    @cached_property
    def placement(self) -> Placement:
        """Placement problem of the slices."""
        return Placement(self.runs, self.slices, self.mismatched, self.memories)

    @cached_property
    def reads(self) -> Reads:
        """Bytes that the runs read, by source."""
        return reads_of(self.runs, self.slices)


@dataclass(slots=True)
class _Written:
    run: int
    tensor: str
    box: tuple[tuple[int, int], ...]


def bind_instances(
    parts: InstanceGraph, order: Sequence[int], costs: DsaCosts, unbound: Unbound | None = None
) -> BoundInstances:
    """Return the instances of ``parts`` in ``order``, bound to cores, with all slices still in DDR.

    Raises ``PinError`` for a pinned binding that a part cannot have.
    """
    graph, cores, most_padding = costs.analysis.graph, costs.cores, costs.view.tuning.most_padding
    written: list[_Written] = []
    holding: dict[str, list[int]] = {}
    flat: list[tuple[int, Part]] = []
    reads: list[dict[str, tuple[int, ...]]] = []
    writes: list[tuple[int, ...]] = []
    for number in order:
        instance = parts.instances[number]
        own: dict[str, int] = {}
        for part in instance.parts:
            slices_read = {}
            for name, box in part.needs.items():
                held = [own[name]] if name in own else holding.get(name, [])
                slices_read[name] = tuple(p for p in held if intersect(written[p].box, box) is not None)
            slices_written = []
            for name in part.layer.outputs:
                if name in instance.writes:
                    own[name] = len(written)
                    slices_written.append(len(written))
                    written.append(_Written(len(flat), name, instance.writes[name]))
            flat.append((number, part))
            reads.append(slices_read)
            writes.append(tuple(slices_written))
        for name, held_by in own.items():
            holding.setdefault(name, []).append(held_by)
    readings = [
        Reading(part.layer, part.box, tuple((written[p].run, name) for name, held in reads[i].items() for p in held))
        for i, (_, part) in enumerate(flat)
    ]
    pinned = _pinned_bindings(readings, costs)
    bound = bind_runs(readings, cores, unbound, most_padding, pinned)
    slices = tuple(stored(graph, w.tensor, w.box, "ddr", bound.bindings[w.run]) for w in written)
    runs: dict[int, list[LayerRun]] = {number: [] for number in order}
    for i, (number, part) in enumerate(flat):
        runs[number].append(LayerRun(part.layer, part.box, bound.bindings[i], reads[i], writes[i]))
    instances = tuple(
        Instance(_name(graph, parts, number), parts.instances[number].group, tuple(runs[number])) for number in order
    )
    mismatched = frozenset(p for p, w in enumerate(written) if w.run in bound.mismatched)
    every = [run for instance in instances for run in instance.runs]
    return BoundInstances(instances, slices, mismatched, pinned_memories(every, costs))


def _pinned_bindings(runs: Sequence[Reading], costs: DsaCosts) -> Mapping[int, Binding]:
    """Return the bindings that the user fixes, by position of the run."""
    bindings = {}
    for number, run in enumerate(runs if costs.pins is not None else ()):
        extents = [hi - lo for lo, hi in run.box]
        most_padding = costs.view.tuning.most_padding
        binding = pinned_binding(costs.pin_of(run.layer), run.layer, extents, costs.cores, most_padding)
        if binding is not None:
            bindings[number] = binding
    return bindings


def _name(graph: Graph, parts: InstanceGraph, number: int) -> str:
    instance = parts.instances[number]
    if not instance.parts:
        return f"views #{instance.index}"
    first, last = instance.parts[0].layer.sink.name, instance.parts[-1].layer.sink.name
    return f"{first}..{last} #{instance.index}" if first != last else f"{first} #{instance.index}"
