"""A schedule: sub-graph instances in order, the layers of each, and where every tensor lives."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fusion.plan import FusionPlan
from fusion.translation import placed_regions
from scheduler.binding import Binding, sample_cores
from scheduler.work import Layer
from workloads.graph import Graph
from workloads.loopnest import Box, box_volume, intersect

BufferScope = Literal["local_buffer", "global_buffer", "ddr"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored part of an activation, as one layer run writes it."""

    tensor: str
    box: Box
    scope: BufferScope
    binding: Binding
    """How it is spread over the cores' local buffers (if that is its scope)."""
    size_bytes: int
    """Of the whole piece, on one cluster."""
    address: int | None = None
    """Where it begins in the memory of its scope, the same in every core's; None in DDR, which is large."""

    @property
    def core_bytes(self) -> int:
        """Of one core's part."""
        return -(-self.size_bytes // self.binding.cores)

    @property
    def place_bytes(self) -> int:
        """What it takes from its address on."""
        return self.core_bytes if self.scope == "local_buffer" else self.size_bytes


@dataclass(frozen=True, slots=True)
class LayerRun:
    """One layer over one box of its output, bound to cores."""

    layer: Layer
    box: Box
    binding: Binding
    reads: Mapping[str, tuple[int, ...]]
    """Pieces that hold what is read of each activation; network inputs and weights are not listed, they are in DDR."""
    writes: tuple[int, ...]
    """Pieces written: the layer's outputs in order."""


def whole_needs(run: LayerRun) -> Mapping[str, Box]:
    """Return the box of every tensor that ``run`` needs on all cores together."""
    return layer_needs(run.layer, run.box)


def layer_needs(layer: Layer, box: Box) -> Mapping[str, Box]:
    """Return the box of every tensor that ``layer`` needs for ``box`` of its output."""
    return layer.graph.derived(
        ("needs", layer.ops, box), lambda: placed_regions(layer.graph, layer.ops, {layer.sink.name: box})
    )


def core_needs(run: LayerRun, pieces: Sequence[Piece]) -> Mapping[int, Mapping[str, Box]]:
    """Return by core the box of every tensor that the core's part of ``run`` needs.

    A few cores stand for all where every operand lies in one piece of just the box that the run needs: parts are
    alike then. Else every core is looked at.
    """
    layer, binding, needs = run.layer, run.binding, whole_needs(run)
    aligned = all(len(held) == 1 and pieces[held[0]].box == needs.get(name) for name, held in run.reads.items())
    cores = sample_cores(binding) if aligned else tuple(range(binding.cores))

    def compute() -> dict[int, Mapping[str, Box]]:
        parts = {core: binding.part(run.box, core) for core in cores}
        return {c: placed_regions(layer.graph, layer.ops, {layer.sink.name: part}) for c, part in parts.items()}

    return layer.graph.derived(("core needs", layer.ops, run.box, binding, cores), compute)


def lifetimes(runs: Sequence[LayerRun]) -> dict[int, range]:
    """Return for each piece the steps, positions in ``runs``, from where it is written to where it is last read."""
    first = {piece: step for step, run in enumerate(runs) for piece in run.writes}
    last = dict(first)
    for step, run in enumerate(runs):
        last.update((piece, step) for held in run.reads.values() for piece in held)
    return {piece: range(begin, last[piece] + 1) for piece, begin in first.items()}


@dataclass(frozen=True, slots=True)
class Instance:
    """One launch of a kernel: a sub-graph, or one part of it along a dimension of its output."""

    name: str
    group: int
    runs: tuple[LayerRun, ...]


@dataclass(frozen=True)
class Schedule:
    """Everything that a policy decides about a network on one cluster."""

    graph: Graph
    plan: FusionPlan
    dtype: str
    instances: tuple[Instance, ...]
    """In the order in which they are launched."""
    pieces: tuple[Piece, ...]
    policy: str = ""
    overlaps_layers: bool = False
    """Whether weights of later layers of a kernel are fetched, and their tiles computed, while earlier ones compute."""
    paper_tiles: bool = False
    """Whether tiles are those of GraphTurbo's text (section 4.1), where these fit."""

    @cached_property
    def runs(self) -> tuple[LayerRun, ...]:
        """All layer runs in the order in which they execute."""
        return tuple(run for instance in self.instances for run in instance.runs)

    @cached_property
    def kernels(self) -> int:
        """Launches that do anything."""
        return sum(bool(instance.runs) for instance in self.instances)

    @cached_property
    def tensor_scopes(self) -> dict[str, int]:
        """Per memory: how many outputs of layers (of kernels, where a kernel is one layer) are kept there."""
        counts: dict[str, int] = {"local_buffer": 0, "global_buffer": 0, "ddr": 0}
        for piece in self.pieces:
            counts[piece.scope] += 1
        return counts

    def __str__(self) -> str:
        lines = [f"schedule {self.policy} of {self.graph.name}: {self.kernels} kernels"]
        for instance in self.instances:
            lines.append(f"  {instance.name}")
            for run in instance.runs:
                box = "x".join(f"{lo}:{hi}" for lo, hi in run.box)
                cores = "x".join(map(str, run.binding.factors))
                scopes = ",".join(self.pieces[piece].scope for piece in run.writes)
                lines.append(f"    {run.layer.sink.name}[{box}] bind={cores} -> {scopes}")
        return "\n".join(lines)


def violations(schedule: Schedule) -> list[str]:
    """Return what is broken; empty if nothing is.

    Parts of outputs that no instance computes, reads before writes, pieces that lie on each other.
    """
    found = _overlapping(schedule)
    written: dict[int, int] = {}
    boxes: dict[str, list[Box]] = {}
    for place, instance in enumerate(schedule.instances):
        for run in instance.runs:
            for name, pieces in run.reads.items():
                early = [piece for piece in pieces if piece not in written]
                found += [f"instance {instance.name!r} reads {name!r} before it is written" for _ in early]
            for piece in run.writes:
                if piece in written:
                    found.append(f"piece {piece} is written by instances {written[piece]} and {place}")
                written[piece] = place
                stored = schedule.pieces[piece]
                boxes.setdefault(stored.tensor, []).append(stored.box)
    covered = {name: union_volume(parts) for name, parts in boxes.items()}
    for group in range(len(schedule.plan.groups)):
        for name in schedule.plan.outputs(group):
            if name in covered and covered[name] < schedule.graph.tensors[name].elements:
                found.append(
                    f"of {name!r} only {covered[name]} of {schedule.graph.tensors[name].elements} elements are computed"
                )
            if name not in covered and schedule.graph.tensors[name].role == "activation":
                found.append(f"{name!r} is written by no instance")
    return found


def _overlapping(schedule: Schedule) -> list[str]:
    """Return the pieces that hold the same bytes of the same memory at the same step."""
    lives = lifetimes(schedule.runs)
    alive: list[int] = []
    found = []
    for number in sorted((p for p in lives if schedule.pieces[p].address is not None), key=lambda p: lives[p].start):
        piece = schedule.pieces[number]
        begin = piece.address or 0
        alive = [p for p in alive if lives[number].start in lives[p]]
        for other in (schedule.pieces[p] for p in alive):
            start = other.address or 0
            if other.scope == piece.scope and start < begin + piece.place_bytes and begin < start + other.place_bytes:
                found.append(f"{piece.tensor!r} and {other.tensor!r} overlap in the {piece.scope} at {begin}")
        alive.append(number)
    return found


def union_volume(boxes: Sequence[Box]) -> int:
    """Return how many elements at least one of ``boxes`` holds."""
    edges = [sorted({edge for box in boxes for edge in box[dim]}) for dim in range(len(boxes[0]))]
    sizes = [np.diff(line) for line in edges]
    grid = np.zeros([len(line) for line in sizes], dtype=bool)
    for box in boxes:
        grid[tuple(slice(line.index(lo), line.index(hi)) for line, (lo, hi) in zip(edges, box, strict=True))] = True
    weights = functools.reduce(np.multiply.outer, sizes, np.ones((), dtype=np.int64))
    return int((grid * weights).sum())


def share_by_scope(schedule_pieces: tuple[Piece, ...], pieces: tuple[int, ...], need: Box | None) -> dict[str, float]:
    """Return which share of ``need`` the ``pieces`` hold in each scope; what is needed of them is counted once."""
    held: dict[str, int] = {}
    for number in pieces:
        piece = schedule_pieces[number]
        wanted = piece.box if need is None else intersect(need, piece.box)
        if wanted is not None:
            held[piece.scope] = held.get(piece.scope, 0) + box_volume(wanted)
    total = sum(held.values())
    return {scope: volume / total for scope, volume in held.items()} if total else {}
