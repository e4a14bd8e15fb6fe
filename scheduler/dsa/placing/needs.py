"""Inputs needed by layer runs, as a whole and per core: boxes, halos, routes, shares by memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.binding import Binding, cores_sharing, needed_and_held, sample_cores
from dsascape.scheduler.dsa.placing.exchanges import clusters_sharing, received_share
from dsascape.scheduler.dsa.schedule.schedule import HaloExchange, LayerRun, TensorSlice
from dsascape.scheduler.dsa.tiling.tiling import Route
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.workloads.loopnest import Box, box_volume, intersect
from dsascape.workloads.memo import memoized
from dsascape.workloads.regions import at_origin, placed_regions

_EVERYWHERE = (DDR, GLOBAL, LOCAL)
_MOST_NEEDS = 64
"""Size of the cache of per-core needs, in runs: a thousand cores take a megabyte; operands are evaluated one by one."""


def whole_needs(run: LayerRun) -> Mapping[str, Box]:
    """Return the box of every tensor, by name, that ``run`` needs on all cores together."""
    return layer_needs(run.layer, run.box)


def evaluated_cores(run: LayerRun, slices: Sequence[TensorSlice]) -> tuple[int, ...]:
    """Return the cores whose needs are evaluated: a representative sample where parts are equal, else all."""
    binding = run.binding
    return sample_cores(binding) if _are_alike(run, slices, whole_needs(run)) else tuple(range(binding.cores))


@dataclass(frozen=True, slots=True)
class Lacking:
    """Parts of a stored tensor that cores need but do not hold: maxima over cores."""

    elements: int
    """Largest number of missing elements of any core."""
    share: float
    """Largest missing fraction of what a core needs."""


def lacking(run: LayerRun, name: str, held: Sequence[TensorSlice], cores: tuple[int, ...]) -> Lacking:
    """Return what ``cores`` lack of the slices ``held`` of a tensor to compute their parts of ``run``.

    Cached for equal layers with equal slices up to translation, as for the next image of a batch.
    """
    layer, sink = run.layer, run.layer.sink.name
    wanted, moves = at_origin(layer.analysis, layer.ops, {sink: run.box})
    stored = [each.box for each in held]
    for move in moves:
        stored = [move.back(name, box) for box in stored]
    there = tuple([(box, each.binding) for box, each in zip(stored, held, strict=True)])
    return _lacking(layer, layer.inputs.index(name), wanted[sink], run.binding, cores, there)


@memoized
def _lacking(
    layer: Layer, number: int, box: Box, binding: Binding, cores: tuple[int, ...],
    stored: tuple[tuple[Box, Binding], ...],
) -> Lacking:  # fmt: skip
    """Return `lacking` for the input at position ``number``."""
    name, most, share = layer.inputs[number], 0, 0.0
    for core, need in _needs_by_core(layer, box, binding, cores).items():
        counted = needed_and_held(core, need.get(name), stored)
        if counted is not None:
            needed, own = counted
            most, share = max(most, needed - own), max(share, (needed - own) / needed)
    return Lacking(most, share)


@memoized(most=_MOST_NEEDS, by_identity=True)
def _needs_by_core(layer: Layer, box: Box, binding: Binding, cores: tuple[int, ...]) -> dict[int, Mapping[str, Box]]:
    """Return the box of every operand that each of ``cores`` needs for its part of ``box``."""
    parts = ((core, {layer.sink.name: binding.part(box, core)}) for core in cores)
    return {core: placed_regions(layer.analysis, layer.ops, part, of=layer.inputs) for core, part in parts}


def _are_alike(run: LayerRun, slices: Sequence[TensorSlice], needs: Mapping[str, Box]) -> bool:
    """Return whether all cores have equal work, and one slice per operand that is exactly the box needed.

    False where outputs are concatenated from several parts, as each core may need another operand.
    """
    return (
        run.binding.divides(run.extents)
        and all(
            len(held) == 1 and slices[held[0]].box == needs.get(name) and slices[held[0]].is_even
            for name, held in run.reads.items()
        )
        and not run.layer.puts_together
    )


def halo_bytes(run: LayerRun, slices: Sequence[TensorSlice]) -> int:
    """Return the maximum bytes that one core has to fetch from the local buffers of others."""
    resident = {
        name: [slices[number] for number in held if slices[number].memory == LOCAL] for name, held in run.reads.items()
    }
    resident = {name: held for name, held in resident.items() if held}
    if not resident:
        return 0
    cores, tensors = evaluated_cores(run, slices), run.layer.graph.tensors
    fetched = ((tensors[name], lacking(run, name, held, cores)) for name, held in resident.items())
    return sum(tensor.bytes_of(missing.elements) for tensor, missing in fetched)


def routes(run: LayerRun, slices: Sequence[TensorSlice], *, broadcasts: bool, clusters: int = 1) -> dict[str, Route]:
    """Return the route of every operand that has to be brought to the local buffers.

    ``broadcasts``: whether one read of the global buffer can fill several local buffers. ``clusters``: number of
    clusters in use.
    """
    by_operand = _routes_apart(run, slices, broadcasts=broadcasts, clusters=clusters)
    for name in run.loaded_together:
        sharing = clusters_sharing(run.layer, name, run.whole_box, run.divided, clusters)
        if sharing > 1 and name in by_operand:
            by_operand[name] = by_operand[name].loaded_together(sharing)
    return by_operand


def _routes_apart(
    run: LayerRun, slices: Sequence[TensorSlice], *, broadcasts: bool, clusters: int
) -> dict[str, Route]:
    """Return `routes` if each cluster loads for itself all that it needs from DDR."""
    layer, need = run.layer, whole_needs(run)
    by_operand = {}
    for name in layer.inputs:
        if name not in need:
            continue
        sharing = cores_sharing(layer, name, run.binding)
        broadcast = broadcasts and sharing > 1
        if name not in run.reads:
            by_operand[name] = Route(1.0, 0.0, sharing, broadcast)
            continue
        held = share_by_memory([slices[number] for number in run.reads[name]], need[name])
        others, receivers = received_share(run, name, slices, clusters) if GLOBAL in held else (0.0, 1)
        further = tuple(sorted((memory, share) for memory, share in held.items() if memory not in _EVERYWHERE))
        own = max(held.get(GLOBAL, 0.0) - others, 0.0)
        route = Route(held.get(DDR, 0.0), own, sharing, broadcast, further, others, receivers)
        if route.streamed:
            by_operand[name] = route
    return by_operand


class RunNeeds(NamedTuple):
    """Halo bytes and operand routes of a run, independent of its tiles."""

    halo_bytes: int
    """Maximum bytes that one core has to fetch from the local buffers of others."""
    routes: Mapping[str, Route]


def needs_of(
    runs: Sequence[LayerRun], slices: Sequence[TensorSlice], *, broadcasts: bool, clusters: int = 1
) -> tuple[RunNeeds, ...]:
    """Return `halo_bytes` and `routes` of each of ``runs``."""
    return tuple([
        RunNeeds(halo_bytes(run, slices), routes(run, slices, broadcasts=broadcasts, clusters=clusters))
        for run in runs
    ])  # fmt: skip


def share_by_memory(held: Sequence[TensorSlice], need: Box) -> dict[str, float]:
    """Return the share of ``need`` that the slices hold in each memory; shares add up to 1."""
    volumes: dict[str, int] = {}
    for each in held:
        wanted = intersect(need, each.box)
        if wanted is not None:
            volumes[each.memory] = volumes.get(each.memory, 0) + box_volume(wanted)
    total = sum(volumes.values())
    return {memory: volume / total for memory, volume in volumes.items()} if total else {}


def output_shares(run: LayerRun, slices: Sequence[TensorSlice]) -> dict[str, float]:
    """Return the share of bytes written by ``run`` that goes to each memory."""
    sizes: dict[str, int] = {}
    for each in (slices[number] for number in run.writes):
        sizes[each.memory] = sizes.get(each.memory, 0) + each.size_bytes
    total = max(sum(sizes.values()), 1)
    return {memory: size / total for memory, size in sizes.items()}


def outermost_memory(shares: Mapping[str, float]) -> str:
    """Return the outermost of three memories in ``shares``: DDR, else the global buffer, else the local buffers.

    Further levels are DDR here: outputs leave the global buffer for either, gathered into bursts.
    """
    if any(memory not in (GLOBAL, LOCAL) for memory in shares):
        return DDR
    return GLOBAL if GLOBAL in shares else LOCAL


def outside_shares(shares: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the memories beyond the global buffer in ``shares``, by name, with their shares of what goes there."""
    outside = sorted((memory, share) for memory, share in shares.items() if memory not in (GLOBAL, LOCAL))
    total = sum([share for _, share in outside])
    return tuple([(memory, share / total) for memory, share in outside if share])


def exchange_rounds(core_bytes: int, cores: int, room_bytes: int) -> HaloExchange:
    """Return the halo exchange of ``core_bytes`` per core through ``room_bytes`` of the global buffer, in rounds."""
    rounds = -(-core_bytes * cores // max(room_bytes, cores))
    return in_rounds(core_bytes, cores, rounds)


def in_rounds(core_bytes: int, cores: int, rounds: int) -> HaloExchange:
    """Return the halo exchange of ``core_bytes`` per core in ``rounds`` rounds through the global buffer."""
    return HaloExchange(core_bytes, -(-core_bytes // rounds) * cores, rounds)
