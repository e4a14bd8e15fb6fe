"""Layouts of weights that follow the tiles of the node that reads them (Ansor, section 4.2)."""

from collections.abc import Iterator, Sequence

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Stage, reads_of
from dsascape.scheduler.kernels.loops.steps import Layout, Steps, Tile
from dsascape.tuner.search.genes import TileGroup, innermost_sizes, step_of
from dsascape.workloads.loopnest import Access, LoopNest


def layouts(naive: NaiveProgram, steps: Steps, group: TileGroup, stage: Stage) -> Iterator[Layout]:
    """Yield how the weights lie that a tiled node reads.

    Panels are as wide as the innermost level along its vectors, and the rest is in the order of the reduction loops.
    """
    sizes = innermost_sizes(steps, group, stage.shape)
    dim = next((dim for dim in reversed(stage.order) if sizes.get(dim, 1) > 1), -1)
    reductions = _reduction_order(steps, group)
    if dim < 0 or not reductions:
        return
    tensors, seen = naive.layer.graph.tensors, set[str]()
    nest = stage.nests[0]
    for read in reads_of(stage, stage.nests):
        described = tensors.get(read.tensor)
        is_weight = described is not None and described.role == "weight" and read.tensor in naive.layer.inputs
        if is_weight and read.tensor not in seen and any(map(read.uses, reductions)):
            seen.add(read.tensor)
            along = _dim_along(nest, read, dim)
            if along is not None:
                rest = _outermost_first(read, along, reductions)
                yield Layout(stage.name, read.tensor, along, sizes[dim], rest)


def _reduction_order(steps: Steps, group: TileGroup) -> tuple[int, ...]:
    """Return the reduction loops of the innermost level that has any, outermost first."""
    if not group.reductions:
        return ()
    name, number = group.reductions[-1]
    tile = step_of(steps, name, Tile)
    assert tile is not None
    return tile.levels[number].order


def _dim_along(nest: LoopNest, read: Access, dim: int) -> int | None:
    """Return the dimension of a weight that moves with a dimension of the result; None where none does by itself."""
    along = nest.moving(nest.write.indices[dim])
    found = [number for number, index in enumerate(read.indices) if along.terms and nest.moving(index) == along]
    is_plain = all(index.divisor == index.window == 1 and not index.opaque for index in read.indices)
    return found[0] if len(found) == 1 and is_plain else None


def _outermost_first(read: Access, along: int, reductions: Sequence[int]) -> tuple[int, ...]:
    """Return the other dimensions of a weight in the order of the reduction loops that move them."""
    place = {loop: number for number, loop in enumerate(reductions)}
    rest = [number for number in range(len(read.indices)) if number != along]
    rest.sort(key=lambda number: max((place.get(loop, -1) for loop, _ in read.indices[number].terms), default=-1))
    return tuple(rest)
