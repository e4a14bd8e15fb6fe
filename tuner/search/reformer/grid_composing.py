"""JOIN on GPUs: one program of a kernel from those of its mini sub-graphs, stage by stage (AGO, section V).

A kernel is one grid there: what another mini sub-graph needs is computed by the threads of a block. So sizes and shares
carry over stage by stage into the kernel's own structure, the innermost levels first.
"""

from collections.abc import Sequence
from dataclasses import replace

from dsascape.scheduler.kernels.loops.steps import Prefetch, ShareReduction, Steps, Tile
from dsascape.tuner.search.genes import with_step
from dsascape.tuner.search.sketches import Sketch
from dsascape.tuner.search.space import Program, Space


def composed_on_grid(space: Space, parts: Sequence[Steps]) -> Program | None:
    """Return the program of the sketch with most of the steps of ``parts`` that is legal with their sizes."""
    own = {(type(step), step.stage): step for steps in parts for step in steps}

    def shared(sketch: Sketch) -> int:
        return sum([(type(step), step.stage) in own for step in sketch.steps])

    for sketch in sorted(space.sketches, key=shared, reverse=True):
        program = space.plain(sketch.steps)
        if program is None:
            continue
        steps = program.steps
        for step in steps:
            other = own.get((type(step), step.stage))
            if isinstance(step, Tile) and isinstance(other, Tile):
                steps = with_step(steps, _with_sizes(step, other))
            elif isinstance(step, ShareReduction | Prefetch) and other is not None:
                steps = with_step(steps, other)
        found = space.completed(steps)
        if found is not None:
            return found
    return None


def _with_sizes(tile: Tile, other: Tile) -> Tile:
    """Return a stage's levels with the sizes of others, each kind of level from the innermost outwards."""
    levels = list(tile.levels)
    for axes in ("space", "reduction"):
        places = [number for number, level in enumerate(tile.levels) if level.axes == axes]
        known = [level for level in other.levels if level.axes == axes]
        for number, level in zip(reversed(places), reversed(known), strict=False):
            if level.sizes is not None and sorted(level.order) == sorted(levels[number].order):
                levels[number] = level
    return replace(tile, levels=tuple(levels))
