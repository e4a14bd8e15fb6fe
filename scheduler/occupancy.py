"""What lies where in the on-chip memories while a program is written, and which layers may still be at work.

A layer begins while earlier ones run only if nothing that it puts anywhere lies on what those still use: their inputs,
their tiles. So no instruction ever waits for space that a later one gives back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.allocation import Block, gaps, put
from scheduler.schedule import LayerRun, Piece
from scheduler.slots import TileSlots
from scheduler.tiling import Tiling

MOST_OPEN = 3
"""Layers that may be at work while the next one begins."""
_MOST_GAPS = 3
"""Gaps between pieces that tiles use; more of them fit little more, and make alike layers differ."""

Blocks = dict[str, list[Block]]
"""By memory."""


@dataclass(slots=True)
class OpenRun:
    """A layer run that may not have ended when the next ones begin."""

    run: LayerRun
    tiling: Tiling
    blocks: Blocks
    """Its tiles, and pieces that nobody needs once it has ended."""
    slots: TileSlots = field(default_factory=TileSlots)
    """The places of its tiles, as far as they have any."""
    entry: tuple[int, ...] = ()
    """Instructions that had ended when it began."""
    exits: tuple[int, ...] = ()
    """Its last instructions."""
    done: list[int] = field(default_factory=list)
    """By tile, in the order in which they are computed: the instruction that completes it."""


class Occupancy:
    """The pieces that are kept in each on-chip memory; ``capacities`` are what windows for weights leave of them."""

    def __init__(self, capacities: Mapping[str, int]) -> None:
        self._capacities = capacities
        self._held: dict[str, dict[int, Block]] = {memory: {} for memory in capacities}

    def hold(self, number: int, piece: Piece) -> None:
        """Let an on-chip piece have its place from now on; it has to have an address."""
        assert piece.address is not None
        self._held[piece.scope][number] = Block(piece.address, piece.place_bytes)

    def block(self, number: int, piece: Piece) -> Block:
        """Return where a held piece lies."""
        return self._held[piece.scope][number]

    def release(self, number: int, piece: Piece) -> Block:
        """Take a piece's place away; return it."""
        return self._held[piece.scope].pop(number)

    def free_gaps(self, memory: str, beside_bytes: int, step_bytes: int) -> tuple[int, ...]:
        """Return the bytes of the largest gaps when ``beside_bytes`` have taken the smallest that holds them.

        They are rounded down to multiples of ``step_bytes`` if they are more than two of them.
        """
        free = sorted(gap.size_bytes for gap in self._gaps(memory, ())) or [0]
        if beside_bytes:
            taken = next((n for n, size in enumerate(free) if size >= beside_bytes), -1)
            free[taken] -= beside_bytes
        free = [size // step_bytes * step_bytes if size > 2 * step_bytes else size for size in free]
        return tuple(sorted(free, reverse=True)[:_MOST_GAPS])

    def _gaps(self, memory: str, others: Iterable[Block]) -> Iterable[Block]:
        return gaps((*self._held[memory].values(), *others), self._capacities[memory])

    def beside(self, opened: Sequence[OpenRun], own: Blocks, sizes: Mapping[str, Sequence[int]]) -> Blocks | None:
        """Return where buffers of ``sizes`` lie if all ``opened`` may still run; None if there is no room for them.

        ``own``: the pieces that the new run writes, which are held already. The blocks are in the order of ``sizes``.
        """
        found: Blocks = {}
        for memory in self._capacities:
            others = [block for one in opened for block in one.blocks[memory]]
            if any(_overlap(mine, other) for mine in own[memory] for other in others):
                return None
            blocks = put([size for size in sizes[memory] if size], self._gaps(memory, others))
            if blocks is None:
                return None
            placed = iter(blocks)
            found[memory] = [next(placed) if size else Block(0, 0) for size in sizes[memory]]
        return found

    def everything(self) -> Blocks:
        """Return blocks that leave no room for anybody."""
        return {memory: [Block(0, capacity)] for memory, capacity in self._capacities.items()}


def _overlap(one: Block, other: Block) -> bool:
    return one.address < other.address + other.size_bytes and other.address < one.address + one.size_bytes
