"""Where a layer's tiles lie: one address for each buffer in flight, used in turn.

Weights on their way through the windows have none: a window is one buffer that is used around its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.allocation import Block
from scheduler.tiling import Tiling

Turn = tuple[int, ...]
"""Addresses that versions take in turn; empty where none are known."""


@dataclass(frozen=True, slots=True)
class TileSlots:
    """Addresses of one layer's buffers; all empty for a layer whose tiles have no fixed place."""

    operands: Mapping[str, Turn] = field(default_factory=dict)
    """In the local buffer, per streamed operand that is not fetched ahead."""
    between: Turn = ()
    """What nests hand to each other."""
    output: Turn = ()
    exchange: Turn = ()
    """What is fetched from other cores."""
    staged: Mapping[str, Turn] = field(default_factory=dict)
    """In the global buffer: operands that stay there while the layer runs."""
    passing: Turn = ()
    """Tiles on their way from DDR."""
    storing: Turn = ()
    """Bursts of output tiles on their way to DDR."""
    sent: Turn = ()
    """What cores send each other."""


def address(turn: Turn, version: int, offset: int = 0) -> int | None:
    """Return the address of a buffer's ``version``, ``offset`` bytes into its slot; None where none is known."""
    return turn[version % len(turn)] + offset if turn else None


def tile_slots(tiling: Tiling, local: Sequence[Block], shared: Sequence[Block]) -> TileSlots:
    """Return the slots when the buffers of ``tiling``, and behind them the exchange's, lie in these blocks in order."""
    near = iter([block.address for block in local])
    operands = {
        name: tuple([next(near) for _ in range(2 if times > 1 else 1)])
        for name, times in tiling.loads.items()
        if name not in tiling.ahead
    }
    between, *output, exchange = near
    far = [block.address for block in shared]
    staged = {name: (place,) for name, place in zip(tiling.staged, far, strict=False)}
    passing, storing, sent = far[len(staged) : -3], far[-3:-1], far[-1:]
    return TileSlots(
        operands, (between,), tuple(output), (exchange,), staged, tuple(passing), tuple(storing), tuple(sent)
    )
