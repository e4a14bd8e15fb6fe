"""Where every piece of a tensor lives: in the local buffers where it fits for all its life, else further out.

The local buffers' weight window stays free for weights and tiles passing through. A piece that the cores would have to
exchange for the most part, because its readers are bound to them differently, goes to the global buffer, as Algorithm 4
does with mismatches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusion.regions import required_regions
from scheduler.binding import held_elsewhere
from scheduler.schedule import BufferScope, LayerRun, Piece
from workloads.loopnest import box_volume, intersect

_MOST_EXCHANGED = 0.5
"""Share of what a core needs that may come from other cores' local buffers."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes that pieces may take: per core in the local buffer, per cluster in the global one."""

    local_bytes: int
    global_bytes: int


def place_pieces(runs: Sequence[LayerRun], pieces: Sequence[Piece], capacity: Capacity) -> tuple[Piece, ...]:
    """Return the pieces with their scopes. ``runs`` in the order in which they will run; earlier pieces choose first."""
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    readers: dict[int, list[tuple[LayerRun, str]]] = {}
    for step, run in enumerate(runs):
        for piece in run.writes:
            begin[piece] = end[piece] = step
        for name, held in run.reads.items():
            for piece in held:
                end[piece] = step
                readers.setdefault(piece, []).append((run, name))
    local = [0] * len(runs)
    shared = [0] * len(runs)
    scopes: dict[int, BufferScope] = {}
    for piece in sorted(begin, key=lambda p: (begin[p], p)):
        stored, life = pieces[piece], range(begin[piece], end[piece] + 1)
        if piece not in readers:
            scopes[piece] = "ddr"  # a result of the network
        elif _fits(local, life, stored.core_bytes, capacity.local_bytes) and not _scattered(stored, readers[piece]):
            _take(local, life, stored.core_bytes)
            scopes[piece] = "local_buffer"
        elif _fits(shared, life, stored.size_bytes, capacity.global_bytes):
            _take(shared, life, stored.size_bytes)
            scopes[piece] = "global_buffer"
        else:
            scopes[piece] = "ddr"
    return tuple(replace(piece, scope=scopes.get(number, "ddr")) for number, piece in enumerate(pieces))


def _fits(used: Sequence[int], life: range, size_bytes: int, capacity_bytes: int) -> bool:
    return all(used[step] + size_bytes <= capacity_bytes for step in life)


def _take(used: list[int], life: range, size_bytes: int) -> None:
    for step in life:
        used[step] += size_bytes


def _scattered(piece: Piece, readers: Sequence[tuple[LayerRun, str]]) -> bool:
    """Whether some reader's cores hold less than half of what they need of the piece."""
    for run, name in readers:
        for core in sample_cores(run.binding.cores):
            need = required_regions(run.layer.graph, run.layer.ops, {run.layer.sink.name: run.binding.part(run.box, core)})
            box = need.get(name)
            wanted = None if box is None else intersect(box, piece.box)
            if wanted is None:
                continue
            if _missing(core, wanted, piece) > _MOST_EXCHANGED * box_volume(wanted):
                return True
    return False


def _missing(core: int, wanted: tuple[tuple[int, int], ...], piece: Piece) -> int:
    """Return the elements of ``wanted`` that ``core`` does not hold."""
    needs: list[tuple[tuple[int, int], ...] | None] = [None] * core
    return held_elsewhere([*needs, wanted], [(piece.box, piece.binding)])


def sample_cores(cores: int) -> tuple[int, ...]:
    """Return a core at the border and one inside: with equal parts, the others are like one of them."""
    return tuple(dict.fromkeys((0, cores // 2)))


