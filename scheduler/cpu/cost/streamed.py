"""Kernels with running statistics (`LoopTiles.streamed`): operands by steps of the depth, and further instructions.

The kernel's nest has the loop over steps of its depth: a step needs its part of both products' operands along the keys,
and the buffers of scores and exponentials hold that alone. Each step corrects the sums of its rows once.
"""

import math
from dataclasses import replace

from dsascape.hw_models.caches.lines import Lines, box_lines
from dsascape.hw_models.caches.nests import Nest
from dsascape.scheduler.cpu.cost.instruction_counts import Counts
from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.scheduler.cpu.structure.chains import Made, streamed_softmax
from dsascape.scheduler.cpu.structure.nests import nests_of
from dsascape.scheduler.cpu.structure.partial_sums import folding_instructions
from dsascape.scheduler.kernels.footprints import footprints_of, touched_lines
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.operands import Footprints, Operand, Reach, TouchedLines
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import link_read, parts_of
from dsascape.workloads.memo import memoized


def footprints_in(layer: Layer, tiled: TiledLoops) -> Footprints:
    """Return the operands of ``layer`` in ``tiled`` loops: by steps of the depth, where softmax's statistics run."""
    if not tiled.is_streamed:
        return footprints_of(layer)
    return _by_steps(layer)


def touched_lines_in(layer: Layer, tiled: TiledLoops, line_bytes: int) -> TouchedLines:
    """Return the lines of ``line_bytes`` that tiles of ``layer`` touch in ``tiled`` loops."""
    if not tiled.is_streamed:
        return touched_lines(layer, line_bytes)
    return _lines_by_steps(layer, line_bytes)


@memoized
def _lines_by_steps(layer: Layer, line_bytes: int) -> TouchedLines:
    return TouchedLines(_by_steps(layer), line_bytes)


@memoized
def _by_steps(layer: Layer) -> Footprints:
    """Return the operands of a layer whose depth is cut in steps, as its parts know them by themselves."""
    whole, parts = footprints_of(layer), parts_of(layer)
    last, names = parts[-1], (*layer.inputs, *layer.outputs)
    axes = _axes_of_rows(layer)
    operands: list[Operand] = []
    for operand, place in zip(whole.operands, whole.places, strict=True):
        part = last if operand.is_written else parts[operand.part]
        own = _own(part, names[place])
        if part is last:
            operands.append(replace(operand, reaches=own.reaches, feeds_depth=own.feeds_depth))
            continue
        single = footprints_of(part)
        reaches = [
            Reach(each.base, each.most, tuple([(axes[dim], slope) for dim, slope in each.slopes if dim in axes]))
            for each in [reach.with_depth(single.depth) for reach in own.reaches]
        ]
        operands.append(replace(operand, reaches=tuple(reaches)))
    buffer = _own(last, parts[-2].sink.name)
    return replace(
        whole, operands=tuple(operands), depth=footprints_of(last).depth, buffers=(buffer,) * len(whole.buffers)
    )


def nest_of_rows(made: Made, line_bytes: int) -> Nest:
    """Return what a softmax touches for a part of each row of a tile.

    First all scores are read and all exponentials written, row by row; then the latter are read to be added up.
    """
    (scores, result), extents = footprints_of(made.layer).operands, made.extents
    lines = [
        box_lines(each.array, [extents[dim] for dim in made.layer.sink.order], line_bytes) for each in (scores, result)
    ]
    return Nest((), ((*lines, Lines(0)),), (False, True, True), passes=((0,), (0, 1), (0,)))


def _own(part: Layer, name: str) -> Operand:
    """Return an operand as a part of the kernel has it by itself."""
    found = footprints_of(part)
    return found.operands[found.places.index((*part.inputs, *part.outputs).index(name))]


def _axes_of_rows(layer: Layer) -> dict[int, int]:
    """Return the axis of the kernel's loops that each dimension of the softmax's rows moves with."""
    *_, rows, last = parts_of(layer)
    anchor = anchored_nest(last)
    assert anchor is not None
    written = {loop: dim for dim, index in enumerate(anchor.write.indices) for loop, _ in index.terms}
    if last.depth_loop is not None:
        written[last.depth_loop] = DEPTH
    indices = enumerate(link_read(anchor, rows.sink.name).indices)
    return {dim: written[loop] for dim, index in indices for loop, _ in index.terms if loop in written}


def add_corrections(total: Counts, made: Made, layer: Layer, lanes: int, by_nest: tuple[Counts, ...]) -> None:
    """Make the instructions of whole rows those of rows in parts: what each part takes once more, and what it does not.

    ``by_nest`` are the instructions of the rows' nests. Exponentials are not divided: the results are, in the end.
    """
    softmax, rows = streamed_softmax(layer), made.layer
    assert softmax is not None
    shape = rows.sink.shape
    columns, step = shape[softmax.columns], made.extents[softmax.columns]
    number = math.prod(shape) // columns
    steps = made.run * -(-columns // step)
    parts = number * steps
    last = max(place for nest in nests_of(rows) for place in nest.places)
    scaled = next(number for number, nest in enumerate(nests_of(rows)) if last in nest.places)
    undone = by_nest[scaled].scaled(-1 / len(nests_of(rows)[scaled].places))
    undone.accumulators = 1
    total.add(undone)
    total.arithmetic += 2 * (parts * folding_instructions(step, lanes) - number * folding_instructions(columns, lanes))
    total.arithmetic += _OF_PART.arithmetic * parts
    total.special += parts
    total.load += _OF_PART.load * parts
    total.store += _OF_PART.store * parts
    total.register_bytes += (_OF_PART.load + _OF_PART.store) * rows.sink.element_bytes * parts
    vectors = math.prod(layer.sink.shape) / lanes
    total.arithmetic += vectors * (steps + 1)  # corrected, and divided in the end
    total.load += vectors * steps + parts
    total.store += vectors * steps
    total.register_bytes += (2 * vectors * lanes * steps + parts) * layer.sink.element_bytes


_OF_PART = Counts()
"""Instructions of one part of a row whose class is not that of its elements: the exponential of a factor comes on top.

Maximum and sum are loaded, updated and stored; the factor is a difference, stored, loaded and multiplied with the sum.
"""
_OF_PART.arithmetic, _OF_PART.load, _OF_PART.store = 4, 3, 3
