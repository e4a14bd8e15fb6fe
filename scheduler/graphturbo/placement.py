"""Where every piece of a tensor lives: in the local buffers where it fits for all its life, else further out.

The local buffers' weight window stays free for weights and tiles passing through. A piece that the cores would have to
exchange for the most part, because its readers are bound to them differently, goes to the global buffer, as Algorithm 4
does with mismatches.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.binding import held_elsewhere
from scheduler.schedule import BufferScope, LayerRun, Piece, core_needs
from workloads.loopnest import box_volume, intersect

_MOST_EXCHANGED = 0.5
"""Share of what a core needs that may come from other cores' local buffers."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes that pieces may take: per core in the local buffer, per cluster in the global one."""

    local_bytes: int
    global_bytes: int
    uses_local: bool = True
    """False keeps everything out of the local buffers, as the ablation's first variant does."""


def place_pieces(
    runs: Sequence[LayerRun], pieces: Sequence[Piece], capacity: Capacity, shared_pieces: Container[int] = ()
) -> tuple[Piece, ...]:
    """Return the pieces with their scopes. ``runs`` in the order in which they will run; earlier pieces choose first.

    ``shared_pieces`` go to the global buffer if they fit there (Algorithm 4, l. 12).

    A piece in the local buffers takes its part of each core's for all its life, and at its readers also room for what
    cores fetch from each other.
    """
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    readers: dict[int, list[tuple[int, LayerRun, str]]] = {}
    for step, run in enumerate(runs):
        for piece in run.writes:
            begin[piece] = end[piece] = step
        for name, held in run.reads.items():
            for piece in held:
                end[piece] = step
                readers.setdefault(piece, []).append((step, run, name))
    results = {run.layer.graph.storage[name] for run in runs[:1] for name in run.layer.graph.outputs}
    local = [0] * len(runs)
    shared = [0] * len(runs)
    scopes: dict[int, BufferScope] = {}
    for piece in sorted(begin, key=lambda p: (begin[p], p)):
        stored, life = pieces[piece], range(begin[piece], end[piece] + 1)
        if piece not in readers or stored.tensor in results:
            scopes[piece] = "ddr"  # results of the network leave, also where they are read again
            continue
        wanted = dict.fromkeys(life, stored.core_bytes)
        near = capacity.uses_local and piece not in shared_pieces and _fits(local, wanted, capacity.local_bytes)
        near = near and _add_exchange(stored, readers[piece], pieces, wanted)
        if near and _fits(local, wanted, capacity.local_bytes):
            _take(local, wanted)
            scopes[piece] = "local_buffer"
            continue
        whole = dict.fromkeys(life, stored.size_bytes)
        if _fits(shared, whole, capacity.global_bytes):
            _take(shared, whole)
            scopes[piece] = "global_buffer"
        else:
            scopes[piece] = "ddr"
    return tuple(replace(piece, scope=scopes.get(number, "ddr")) for number, piece in enumerate(pieces))


def _fits(used: Sequence[int], wanted: Mapping[int, int], capacity_bytes: int) -> bool:
    return all(used[step] + size <= capacity_bytes for step, size in wanted.items())


def _take(used: list[int], wanted: Mapping[int, int]) -> None:
    for step, size in wanted.items():
        used[step] += size


def _add_exchange(
    piece: Piece, readers: Sequence[tuple[int, LayerRun, str]], pieces: Sequence[Piece], wanted: dict[int, int]
) -> bool:
    """Add to ``wanted`` what cores fetch from each other at each reader; False if that is the larger part."""
    for step, run, name in readers:
        element_bytes = run.layer.graph.tensors[name].element_bytes
        most = 0
        for core, needs in core_needs(run, pieces).items():
            need = needs.get(name)
            box = None if need is None else intersect(need, piece.box)
            if box is None:
                continue
            missing = held_elsewhere({core: box}, [(piece.box, piece.binding)])
            if missing > _MOST_EXCHANGED * box_volume(box):
                return False
            most = max(most, missing * element_bytes)
        wanted[step] += most
    return True
