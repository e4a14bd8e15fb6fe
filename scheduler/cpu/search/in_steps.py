"""Tiles in which a softmax between two products is computed for some of its row at a time (`LoopTiles.streamed`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.chains import depth_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.parts import divisors


def in_steps(last: Layer, whole: Sequence[LoopTiles]) -> Iterator[LoopTiles]:
    """Yield tiles with running statistics of the softmax in front: each tile of rows once, in steps of the depth.

    Results are whole along the vectors, so that no scores are computed twice. Steps divide the depth, or the last is
    shorter.
    """
    shape, depth = last.sink.shape, depth_of(last)
    steps = [each for each in divisors(depth) if _FEWEST <= each < depth]
    wanted = dict.fromkeys([
        each
        for most in _COLUMNS
        for each in (max([each for each in steps if each <= most], default=0), most if most < depth else 0)
    ])
    for tiles in whole:
        if tiles.depth_step is None and tiles.whole_registers[tiles.vector_dim] >= shape[tiles.vector_dim]:
            yield from [replace(tiles, depth_step=step, streamed=True) for step in wanted if step]


_COLUMNS = (64, 256)
"""Most columns of a softmax that are tried for one part of its rows."""
_FEWEST = 16
"""Fewest of them: each part takes a correction of all sums."""
