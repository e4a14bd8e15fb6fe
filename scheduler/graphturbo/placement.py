"""Section 4.3: where every piece of a tensor lives, at which address, and what is spilled.

A piece takes its place when it is written and keeps it until its last reader has run. Where the local buffers do not
hold all that is alive, the piece with the longest life is spilled to the global buffer, and from there to DDR (Fig.
12); so is what finds no gap, since buffers lie in one place for all their life. A piece is spilled for all its life,
not from then on: the plan is made before anything runs, and what is written further out at once costs one store, not a
load and a store more.

The local buffers' weight window stays free for weights and tiles passing through. A piece that the cores would have to
exchange for the most part, because its readers are bound to them differently, goes to the global buffer, as Algorithm 4
does with mismatches.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.allocation import Tenant, addresses, without_spilled
from scheduler.binding import held_elsewhere
from scheduler.schedule import LayerRun, Piece, core_needs, lifetimes
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
    spills_longest: bool = True
    """False spills the piece that comes last, not the one that lives longest."""
    apart_steps: int = 0
    """Layers that may be at work when the next one begins: pieces avoid their addresses, where there is room."""


def place_pieces(
    runs: Sequence[LayerRun], pieces: Sequence[Piece], capacity: Capacity, shared_pieces: Container[int] = ()
) -> tuple[Piece, ...]:
    """Return the pieces with their scopes and addresses. ``runs`` in the order in which they will run.

    ``shared_pieces`` go to the global buffer if they fit there (Algorithm 4, l. 12).

    A piece in the local buffers takes its part of each core's, and at its readers also room for what cores fetch from
    each other.
    """
    lives = lifetimes(runs)
    readers: dict[int, list[tuple[LayerRun, int, str]]] = {}
    for step, run in enumerate(runs):
        for name, held in run.reads.items():
            for piece in held:
                readers.setdefault(piece, []).append((run, step, name))
    results = {run.layer.graph.storage[name] for run in runs[:1] for name in run.layer.graph.outputs}
    staying = [p for p in lives if p in readers and pieces[p].tensor not in results]  # results leave, even if read
    near = []
    for piece in staying if capacity.uses_local else ():
        exchanged = None if piece in shared_pieces else _exchanged(piece, readers[piece], pieces)
        if exchanged is not None:
            near.append(Tenant(piece, pieces[piece].core_bytes, lives[piece], exchanged))
    near = without_spilled(near, capacity.local_bytes, longest=capacity.spills_longest)
    local = addresses(near, capacity.local_bytes, capacity.apart_steps)
    far = [Tenant(piece, pieces[piece].size_bytes, lives[piece]) for piece in staying if piece not in local]
    far = without_spilled(far, capacity.global_bytes, longest=capacity.spills_longest)
    shared = addresses(far, capacity.global_bytes)
    return tuple(_placed(piece, local.get(number), shared.get(number)) for number, piece in enumerate(pieces))


def _placed(piece: Piece, local: int | None, shared: int | None) -> Piece:
    if local is not None:
        return replace(piece, scope="local_buffer", address=local)
    if shared is not None:
        return replace(piece, scope="global_buffer", address=shared)
    return replace(piece, scope="ddr", address=None)


def _exchanged(
    number: int, readers: Sequence[tuple[LayerRun, int, str]], pieces: Sequence[Piece]
) -> Mapping[int, int] | None:
    """Return by step the bytes of a piece that cores fetch from each other; None if that is the larger part."""
    piece = pieces[number]
    found: dict[int, int] = {}
    for run, step, name in readers:
        element_bytes = run.layer.graph.tensors[name].element_bytes
        most = 0
        for core, needs in core_needs(run, pieces).items():
            need = needs.get(name)
            box = None if need is None else intersect(need, piece.box)
            if box is None:
                continue
            missing = held_elsewhere({core: box}, [(piece.box, piece.binding)])
            if missing > _MOST_EXCHANGED * box_volume(box):
                return None
            most = max(most, missing * element_bytes)
        if most:
            found[step] = found.get(step, 0) + most
    return found
