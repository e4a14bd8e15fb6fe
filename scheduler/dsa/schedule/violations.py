"""Validity check of schedules: no violations for schedules made by the scheduler, or for valid edited ones."""

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from dsascape.fusion.plan import violations as plan_violations
from dsascape.scheduler.dsa.deciding.execution import buffer_sizes, fetched_at_once
from dsascape.scheduler.dsa.deciding.requests import capacities
from dsascape.scheduler.dsa.deciding.unit_choice import can_do
from dsascape.scheduler.dsa.placing.allocation import Block
from dsascape.scheduler.dsa.placing.division import divides
from dsascape.scheduler.dsa.placing.exchanges import from_clusters_bytes
from dsascape.scheduler.dsa.placing.free_space import overlap
from dsascape.scheduler.dsa.placing.needs import halo_bytes, routes, whole_needs
from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun, Layout, Schedule, TensorSlice
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL, DsaView
from dsascape.wording import count
from dsascape.workloads.loopnest import Box, box_volume, full_box, intersect


def violations(schedule: Schedule, view: DsaView) -> list[str]:
    """Return messages on everything that makes ``schedule`` invalid on the machine; empty if it is valid."""
    messages = [*layout_violations(schedule), *_beyond_capacity(schedule, view)]
    if len(schedule.executions) != len(schedule.runs):
        runs, executions = count(len(schedule.runs), "layer run"), count(len(schedule.executions), "execution")
        return [*messages, f"has {runs}, and {executions}"]
    return messages or list(_Replay(schedule, view).violations())


def layout_violations(layout: Layout) -> list[str]:
    """Return messages on everything that makes a layout invalid; empty if it is valid.

    An invalid plan, parts of outputs that no instance computes, reads before writes, overlapping slices.
    """
    messages = [*plan_violations(layout.plan), *_overlapping(layout)]
    written: dict[int, int] = {}
    boxes: dict[str, list[Box]] = {}
    for place, instance in enumerate(layout.instances):
        for run in instance.runs:
            for name, held in run.reads.items():
                early = [number for number in held if number not in written]
                messages += [f"instance {instance.name!r} reads {name!r} before it is written" for _ in early]
            again = [n for at, n in enumerate(run.writes) if n in written or n in run.writes[:at]]
            messages += [f"slice {n} is written by instances {written.get(n, place)} and {place}" for n in again]
            for number in run.writes:
                written[number] = place
                stored = layout.slices[number]
                boxes.setdefault(stored.tensor, []).append(stored.box)
    covered = {name: union_volume(parts) for name, parts in boxes.items()}
    tensors = layout.graph.tensors
    for group in range(len(layout.plan.groups)):
        for name in layout.plan.outputs(group):
            if name in covered and covered[name] < tensors[name].elements:
                messages.append(
                    f"only {covered[name]:,} of {count(tensors[name].elements, 'element')} of {name!r} are computed"
                )
            if name not in covered and tensors[name].role == "activation":
                messages.append(f"{name!r} is written by no instance")
    return messages


def _overlapping(layout: Layout) -> list[str]:
    """Return messages on slices that overlap in memory while both are live."""
    lives, slices = layout.live_ranges, layout.slices
    alive: list[int] = []
    messages = []
    for number in sorted((n for n in lives if slices[n].address is not None), key=lambda n: lives[n].start):
        one = slices[number]
        alive = [n for n in alive if lives[number].start in lives[n]]
        own = Block(one.address or 0, one.held_bytes)
        messages += [
            f"{one.tensor!r} and {other.tensor!r} overlap in the {one.memory} at {one.address}"
            for other in (slices[n] for n in alive)
            if other.memory == one.memory and overlap(own, Block(other.address or 0, other.held_bytes))
        ]
        alive.append(number)
    return messages


def _beyond_capacity(schedule: Schedule, view: DsaView) -> list[str]:
    room = capacities(view, schedule.prefetch)
    broken = [
        f"the prefetch buffer of the {memory} begins at {room[memory]}; it holds {whole} B"
        for memory, whole in ((LOCAL, view.local_buffer_bytes), (GLOBAL, view.global_buffer_bytes))
        if not 0 <= room[memory] <= whole
    ]
    if schedule.prefetch is not None:
        kept = schedule.prefetch
        if kept.local_address + kept.local_bytes > view.local_buffer_bytes:
            broken.append(f"the prefetch buffer of the local_buffer ends beyond its {view.local_buffer_bytes} B")
        if kept.global_address + kept.global_bytes > view.global_buffer_bytes:
            broken.append(f"the prefetch buffer of the global_buffer ends beyond its {view.global_buffer_bytes} B")
    on_chip = [each for each in schedule.slices if each.memory != DDR]
    broken += [f"{each.tensor!r} has no address in the {each.memory}" for each in on_chip if each.address is None]
    ends = [(each, each.address + each.held_bytes) for each in on_chip if each.address is not None]
    return broken + [
        f"{each.tensor!r} ends at {end} in the {each.memory}, where {room[each.memory]} B are"
        for each, end in ends
        if end > room[each.memory]
    ]


class _Replay:
    """Replays the runs in order and checks each against those that may still be executing when it begins."""

    def __init__(self, schedule: Schedule, view: DsaView) -> None:
        self._schedule = schedule
        self._view = view
        self._room = capacities(view, schedule.prefetch)
        self._first = {}
        number = 0
        for instance in schedule.instances:
            for place in range(number, number + len(instance.runs)):
                self._first[place] = number
            number += len(instance.runs)

    def violations(self) -> Iterator[str]:
        both = list(zip(self._schedule.runs, self._schedule.executions, strict=True))
        for number, (run, execution) in enumerate(both):
            yield from (f"run {number} ({run.layer.sink.name}): {wrong}" for wrong in self._decisions(run, execution))
        for number, (run, execution) in enumerate(both):
            wrong_places = self._begin(number, run, execution)
            yield from (f"run {number} ({run.layer.sink.name}): {wrong}" for wrong in wrong_places)

    def _decisions(self, run: LayerRun, execution: Execution) -> Iterator[str]:
        """Yield messages on routes and halos that do not match the slices, and on units that cannot do their nests."""
        slices = self._schedule.slices
        yield from _wrong_slices(run, slices)
        expected = routes(run, slices, broadcasts=self._view.broadcasts, clusters=self._schedule.clusters)
        for name in {**expected, **execution.routes}:
            if execution.routes.get(name) != expected.get(name):
                has, needs = (found.get(name, "the cores that hold it") for found in (execution.routes, expected))
                yield f"{name!r} comes from {has}; its slices require {needs}"
        halo = halo_bytes(run, slices)
        if execution.exchange.core_bytes != halo:
            yield f"cores exchange {execution.exchange.core_bytes} B; the bindings of the slices require {halo}"
        yield from self._division(run, execution)
        if run.binding.cores > self._view.cores_per_cluster:
            yield f"is bound to {count(run.binding.cores, 'core')}; a cluster has {self._view.cores_per_cluster}"
        part = run.binding.part_extents(run.extents)
        for nest, unit in zip(run.layer.tile_work(part).nests, execution.units, strict=True):
            if not can_do(nest, unit, self._view, self._schedule.dtype):
                yield f"unit {unit} cannot do the nest that writes {nest.nest.write.tensor!r}"
        kept = self._schedule.prefetch
        if kept is not None:
            room = kept.local_bytes, kept.global_bytes
            for used, size, memory in zip(execution.tiling.prefetch_bytes, room, (LOCAL, GLOBAL), strict=True):
                if used > size:
                    yield f"its weights take {used} B of the {memory}'s prefetch buffer, which holds {size}"

    def _division(self, run: LayerRun, execution: Execution) -> Iterator[str]:
        """Yield messages on a division among clusters that its schedule, its outputs or its inputs do not have."""
        schedule, clusters = self._schedule, self._schedule.clusters
        if run.divided is not None:
            if schedule.clusters_share != "kernels" or clusters % run.divided.cores:
                shared = f"{count(clusters, 'cluster')} share the {schedule.clusters_share}"
                yield f"is divided into {count(run.divided.cores, 'part')}; {shared}"
            if run.whole_box != full_box(run.layer.sink.shape) or not divides(run.layer, run.divided):
                yield "is divided among clusters into parts that are not all equal, or not all of its outputs"
        for each in (schedule.slices[number] for number in run.writes):
            if each.divided != run.divided:
                yield f"{each.tensor!r} is stored as another part than the cluster computes"
            elif each.divided is not None and not self._is_shared(each.memory):
                yield f"{each.tensor!r} is divided among clusters; others cannot read it in the {each.memory}"
        if run.loaded_together and not self._view.exchanges_over_link:
            yield f"loads {', '.join(run.loaded_together)} together; the clusters have no link"
        others = from_clusters_bytes(run, schedule.slices, clusters)
        if execution.from_clusters_bytes != others:
            yield f"reads {execution.from_clusters_bytes} B that other clusters store; its slices require {others}"

    def _is_shared(self, memory: str) -> bool:
        """Return whether clusters reach each other's parts of a slice in ``memory``."""
        return memory == DDR or (memory == GLOBAL and self._view.exchanges_over_link)

    def _begin(self, number: int, run: LayerRun, execution: Execution) -> Iterator[str]:
        """Yield messages on conflicts of a run with those after ``begins_after``, which may still be executing."""
        first, schedule = self._first[number], self._schedule
        if not first - 1 <= execution.begins_after < number:
            yield f"begins after run {execution.begins_after}; its kernel begins with run {first}"
            return
        fetched = fetched_at_once(run, schedule.slices, execution.routes, execution.exchange)
        for other in range(execution.begins_after + 1, number):
            if fetched.intersection(schedule.runs[other].writes):
                yield f"begins while run {other} may still write what it fetches as a whole"
        for memory in self._room:
            needed = len(buffer_sizes(execution.tiling, execution.exchange).get(memory, ()))
            placed = len(_places(execution, memory))
            if execution.addresses.are_fixed and placed != needed:
                buffers = count(needed, "buffer")
                yield f"its tiles have {buffers} in the {memory}, addresses for {placed}; leave addresses out"
            own = self._tiles(number, memory) if execution.addresses.are_fixed else []
            for place, block in enumerate(own):
                if block.address + block.size_bytes > self._room[memory]:
                    yield f"a tile's buffer ends at {block.address + block.size_bytes} of {self._room[memory]} B"
                if any(overlap(block, other) for other in own[:place]):
                    yield f"two of its buffers overlap in the {memory} at {block.address}"
            held = [self._block(n) for n in self._held(number, memory)]
            written = [self._block(n) for n in run.writes if schedule.slices[n].memory == memory]
            for other in range(execution.begins_after + 1, number):
                others = [*self._tiles(other, memory), *(self._block(n) for n in self._last_read(other, memory))]
                if any(overlap(block, there) for block in (*own, *written) for there in others):
                    yield f"its buffers in the {memory} overlap those of run {other}, which may still be executing"
            if any(overlap(block, there) for block in own for there in held):
                yield f"its buffers in the {memory} overlap a tensor kept there"

    def _tiles(self, number: int, memory: str) -> list[Block]:
        """Return the blocks of a run's buffers; the whole memory, if they have no fixed addresses."""
        execution = self._schedule.executions[number]
        if not execution.addresses.are_fixed:
            return [Block(0, self._room[memory])]
        sizes = buffer_sizes(execution.tiling, execution.exchange).get(memory, ())
        return [Block(at, size) for at, size in zip(_places(execution, memory), sizes, strict=False) if size]

    def _held(self, number: int, memory: str) -> list[int]:
        lives = self._schedule.live_ranges
        return [n for n, live in lives.items() if number in live and self._schedule.slices[n].memory == memory]

    def _last_read(self, number: int, memory: str) -> list[int]:
        run, lives = self._schedule.runs[number], self._schedule.live_ranges
        read = {n for held in run.reads.values() for n in held}
        return [n for n in read if lives[n].stop - 1 == number and self._schedule.slices[n].memory == memory]

    def _block(self, number: int) -> Block:
        each = self._schedule.slices[number]
        return Block(each.address or 0, each.held_bytes)


def _places(execution: Execution, memory: str) -> list[int]:
    """Return the addresses of a run's buffers, in the order of `buffer_sizes`."""
    places = execution.addresses
    if memory == LOCAL:
        operands = (at for each in places.operands.values() for at in each)
        return [*operands, *places.between, *places.output, *places.halo]
    if memory != GLOBAL:
        return []
    staged = (at for each in places.staged.values() for at in each)
    return [*staged, *places.passing, *places.storing, *places.sent]


def _wrong_slices(run: LayerRun, slices: Sequence[TensorSlice]) -> Iterator[str]:
    """Yield messages on inputs missing from the slices read, and on written slices of a wrong tensor or part."""
    needs, tensors = whole_needs(run), run.layer.graph.tensors
    for name in run.layer.inputs:
        held = [slices[number] for number in run.reads.get(name, ())]
        if any(each.tensor != name for each in held):
            yield f"reads slices of another tensor as {name!r}"
        if name not in needs or tensors[name].role != "activation":
            continue
        parts = [part for each in held if (part := intersect(needs[name], each.box)) is not None]
        missing = box_volume(needs[name]) - (union_volume(parts) if parts else 0)
        if missing:
            yield f"the slices that it reads lack {count(missing, 'element')} of {name!r}"
    for number in run.writes:
        each = slices[number]
        if each.tensor not in run.layer.outputs:
            yield f"writes slice {number} of {each.tensor!r}, which it does not compute"
        elif each.tensor == run.layer.sink.name and each.box != run.whole_box:
            yield f"writes slice {number}, which is another part of {each.tensor!r} than it computes"


def union_volume(boxes: Sequence[Box]) -> int:
    """Return the number of elements in the union of ``boxes``."""
    edges = [sorted({edge for box in boxes for edge in box[dim]}) for dim in range(len(boxes[0]))]
    sizes = [np.diff(line) for line in edges]
    grid = np.zeros([len(line) for line in sizes], dtype=bool)
    for box in boxes:
        grid[tuple(slice(line.index(lo), line.index(hi)) for line, (lo, hi) in zip(edges, box, strict=True))] = True
    weights = functools.reduce(np.multiply.outer, sizes, np.ones((), dtype=np.int64))
    return int((grid * weights).sum())
