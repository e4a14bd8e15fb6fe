"""Tiles of the contractions in front of a kernel's last one, for the part of their results that a block needs.

Which elements a tile needs of a front follows from the access maps, what neighbouring tiles need too (the halo)
included. They are cut into parts so that the block issues as few instructions as can be: large parts load each operand
for many sums, small ones leave fewer sums over at the edges. There are at least as many parts as the schedulers of an
SM have threads in a cycle, if there are as many elements, and no more sums to a part than the last contraction has.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dsascape.hw_models.gpu.sm import packed
from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.gpu.nests import BlockNest, nests_of
from dsascape.scheduler.gpu.staging import operands_bytes
from dsascape.scheduler.gpu.tiles import ComputeUnit, FrontTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import BYTE_BITS
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized, memoized_in_process

_LENGTHS = (256, 128, 64, 32, 16, 8)
"""Rows and columns whose operands are staged at a time."""
_PART_SIDES = (1, 2, 4, 8, 16)
"""Rows and columns of a thread's part."""
_WARP_SIDES = (8, 16, 32, 64, 128)
"""Rows and columns of a warp's part, on tensor units."""
_LEAST_SUMS = 16
"""Sums of a front that a thread may keep at least, however few it keeps of the last contraction."""
_LARGEST_PART = 64
_LARGEST_WARP_PART = 64 * 64
_LONGER = (2, 4, 8)
"""Times as long steps as others that are tried."""
_PART_OF_ROOM = 8
"""One part in so many of the room for it is what long steps take: several blocks are on an SM."""


class _Sides(NamedTuple):
    """Dimensions of a contraction's result that are rows and columns of its product, the innermost in memory first."""

    rows: tuple[int, ...]
    """Also those along which products are separate."""
    columns: tuple[int, ...]


def fronts_of(
    layer: Layer, tile: Extents, sums: int, threads: int, view: GpuView, *, staged: bool, stream: int | None = None
) -> tuple[FrontTiles, ...]:
    """Return the tiles of all fronts of ``layer`` in blocks of ``threads`` that compute ``tile`` of the sink.

    ``sums``: what a thread keeps of the last contraction. ``staged``: whether lanes have operands brought to shared
    memory; tensor units always have.
    """
    nests = nests_of(layer)
    if not nests.fronts:
        return ()
    works = nests.works(layer, tile, stream)
    worker = _Worker(max(sums, _LEAST_SUMS), threads, room_of(layer, tile, view, stream))
    part = view.code_with_fronts
    boxes = [(number, nests.nests[number].box(works[number].extents)) for number in nests.fronts]
    return tuple([_front(layer, number, box, worker, staged, part) for number, box in boxes])


def room_of(layer: Layer, tile: Extents, view: GpuView, stream: int | None = None) -> int:
    """Return the bytes of a block's shared memory beside what lies there from one contraction to the next."""
    nests = nests_of(layer)
    works = nests.works(layer, tile, stream)
    own = zip(nests.nests, works, strict=True)
    held = [math.ceil(each.element_bytes * work.most_outputs) for each, work in own if each.is_shared]
    return max(view.spec.sms.shared.per_block_bytes - sum(held), 0)


class _Worker(NamedTuple):
    """Resources of a block for a contraction in front of the last."""

    sums: int
    """Sums that a thread may keep in registers."""
    threads: int
    room: int
    """Bytes of shared memory beside what lies there from one contraction to the next."""


@memoized
def _front(layer: Layer, number: int, box: Extents, worker: _Worker, staged: bool, view: GpuView) -> FrontTiles:
    nest = nests_of(layer).nests[number]
    whole, sides = nest.product_of(box), _sides(layer, nest)
    unit = "lanes" if whole is None else unit_of(whole.rows, whole.columns, whole.depth, view)
    rows, columns = (tuple([box[dim] for dim in dims]) for dims in sides)
    step = _step(nest, box, worker, view) if unit == "tensor" or (staged and is_reused(nest)) else None
    left, right = [read.element_bytes for read in (*nest.reads, *nest.reads)[:2]]
    in_step = [0.0, 0.0]
    if step is not None:
        staged_bytes = operands_bytes(nest, nest.compiled.loop_extents(box), step)
        in_step = [
            view.tuning.stages * each / math.prod(side)
            for each, side in zip(staged_bytes, (rows, columns), strict=True)
        ]
    asked = _Asked(rows, columns, worker, left, right, unit, step is not None, in_step[0], in_step[1])
    chosen = _choice(layer.analysis, asked, view)
    at_once, part = [1] * len(box), [1] * len(box)
    for dims, around, inside in zip(sides, chosen.at_once, chosen.part, strict=True):
        for place, dim in enumerate(dims):
            at_once[dim], part[dim] = around[place], inside[place]
    return FrontTiles(tuple(part), step, unit, None if tuple(at_once) == box or step is None else tuple(at_once))


def tried_by(layer: Layer, view: GpuView) -> GpuView:
    """Return the part of the machine that the tiles tried for ``layer`` depend on: with fronts, a larger one."""
    return view.code_with_fronts if nests_of(layer).fronts else view.code


def is_reused(nest: BlockNest) -> bool:
    """Whether products have several rows and columns, so that elements of both operands are used more than once."""
    whole = nest.product(nest.compiled.nest.extents, 1)
    return whole is not None and min(whole.rows, whole.columns) > 1


def _sides(layer: Layer, nest: BlockNest) -> _Sides:
    write, roles = nest.compiled.nest.write, nest.compiled.roles
    tensor = layer.graph.tensors.get(write.tensor)
    order = range(len(write.shape)) if tensor is None else tensor.order
    rows: list[int] = []
    columns: list[int] = []
    separate: list[int] = []
    for dim in reversed(order):
        of_dim = {roles[loop] for loop, _ in write.indices[dim].terms} if roles else set()
        if write.shape[dim] > 1:
            (rows if of_dim & {"rows", "run"} else columns if "columns" in of_dim else separate).append(dim)
    return _Sides((*rows, *separate), tuple(columns))


def _step(nest: BlockNest, box: Extents, worker: _Worker, view: GpuView) -> int:
    """Return the step of a front's depth: few long ones if the operands are small, as each step is waited for."""
    step, extents = depth_step(nest, view), nest.compiled.loop_extents(box)
    most = worker.room // (_PART_OF_ROOM * view.tuning.stages)
    longer = [each * step for each in _LONGER if sum(operands_bytes(nest, extents, each * step)) <= most]
    return min(max(longer, default=step), nest.depth)


class _Asked(NamedTuple):
    """A front that a block computes."""

    rows: Extents
    columns: Extents
    """Elements along the dimensions of each side, the one innermost in memory first."""
    worker: _Worker
    left_bytes: float
    right_bytes: float
    """Bytes of an element of either operand."""
    unit: ComputeUnit
    is_staged: bool
    row_bytes: float
    column_bytes: float
    """Bytes staged at a time for each row and each column, in all stages together."""


class _Choice(NamedTuple):
    """Elements along the dimensions of the rows, and of the columns."""

    at_once: tuple[Extents, Extents]
    part: tuple[Extents, Extents]


@memoized
def _choice(analysis: Analysis, asked: _Asked, view: GpuView) -> _Choice:
    """Return what is staged at a time, and the part of it that one thread (warp) computes, for few instructions."""
    del analysis
    warp, on_tensor = view.spec.sms.warp, asked.unit == "tensor"
    workers = asked.worker.threads // warp if on_tensor else asked.worker.threads
    busy = min(workers, view.spec.sms.issued_per_cycle * (1 if on_tensor else warp))
    most = _LARGEST_WARP_PART if on_tensor else min(asked.worker.sums, _LARGEST_PART)
    sides = _WARP_SIDES if on_tensor else _PART_SIDES
    found: dict[_Choice, tuple[bool, bool, float]] = {}
    for height, width in _at_once(asked, most * workers):
        around = [math.prod(each) for each in (height, width)]
        turns = _number(asked.rows, height) * _number(asked.columns, width)
        copied = turns * _copied(asked, around[0], around[1], view)
        cuts = dict.fromkeys([_cut(height, each) for each in sides])
        for wanted in sides:
            across = _cut(width, wanted)
            columns, parts_across = math.prod(across), _number(width, across)
            for down in {**cuts, _cut(height, max(most // columns, 1)): None}:
                rows, count = math.prod(down), _number(height, down) * parts_across
                working = count if on_tensor else count / warp
                cost = copied + turns * working * _issued(asked, rows, columns, view)
                is_idle = count < min(busy, math.prod(around))
                found[_Choice((height, width), (down, across))] = rows * columns > most, is_idle, cost
    return min(found, key=found.__getitem__)


def _at_once(asked: _Asked, most: int) -> Iterator[tuple[Extents, Extents]]:
    """Yield rows and columns that are computed at a time: all, where nothing is staged."""
    if not asked.is_staged:
        yield asked.rows, asked.columns
        return
    heights = {_cut(asked.rows, length): None for length in _LENGTHS}
    widths = {_cut(asked.columns, length): None for length in _LENGTHS}
    is_any = False
    for height in heights:
        rows = math.prod(height)
        for width in widths:  # the widest that fits
            columns = math.prod(width)
            has_room = rows * asked.row_bytes + columns * asked.column_bytes <= asked.worker.room
            if rows * columns <= most and has_room:
                is_any = True
                yield height, width
                break
        if is_any and (height, width) == (asked.rows, asked.columns):  # all at once
            return
    if not is_any:
        yield min(heights), min(widths)


@memoized_in_process(4096)
def _cut(sizes: Extents, wanted: int) -> Extents:
    """Return up to ``wanted`` elements along all dimensions, in cuts of equal size."""
    return tuple(filled(sizes, range(len(sizes)), wanted, [1] * len(sizes), even=True))


def _number(sizes: Extents, parts: Extents) -> int:
    return math.prod([-(-size // part) for size, part in zip(sizes, parts, strict=True)])


def _issued(asked: _Asked, rows: int, columns: int, view: GpuView) -> float:
    """Return what a thread (warp) issues of a part for one iteration of its depth, loads of operands included."""
    most = view.tuning.vector_bytes
    if asked.unit == "tensor":
        tensor = view.tensor
        assert tensor is not None
        loaded = rows * asked.left_bytes + columns * asked.right_bytes / tensor.warps
        return tensor_tiles(rows, columns, tensor) / tensor.depth + loaded / most / view.spec.sms.warp
    loaded = sum([
        length / max(1, min(most // each, length))
        for length, each in ((rows, asked.left_bytes), (columns, asked.right_bytes))
    ])  # fmt: skip
    return rows * columns / min(packed(view.dtype), rows * columns) + loaded


def _copied(asked: _Asked, rows: int, columns: int, view: GpuView) -> float:
    """Return what warps issue to stage so many rows and columns for one iteration of the depth."""
    if not asked.is_staged:
        return 0.0
    copies = (rows * asked.left_bytes + columns * asked.right_bytes) / view.tuning.vector_bytes
    return copies * 2 * (1 + view.tuning.address_instructions) / view.spec.sms.warp


def tensor_tiles(rows: int, columns: int, tensor: TensorUnits) -> int:
    """Return the instructions of tensor units for one step of a product's depth; either operand may be that of rows."""
    shapes = [(rows, columns), (columns, rows)]
    return min([-(-down // tensor.rows) * -(-across // tensor.columns) for down, across in shapes])


def unit_of(rows: int, columns: int, depth: int, view: GpuView) -> ComputeUnit:
    """Return what computes a product of several rows and columns: tensor units if it fills them, or they are as fast.

    Of a smaller product, the rows, columns and steps of the depth that an instruction has beyond it count.
    """
    tensor = view.tensor
    if tensor is None or min(rows, columns) == 1:
        return "lanes"
    if fills_tensor_units(rows, columns, depth, tensor):
        return "tensor"
    tiled = tensor_tiles(rows, columns, tensor) * -(-depth // tensor.depth)
    on_tensor = tiled * tensor.rows * tensor.columns * tensor.depth * view.spec.lanes(view.product or view.dtype)
    return "tensor" if on_tensor <= rows * columns * depth * tensor.macs_per_cycle else "lanes"


def fills_tensor_units(rows: int, columns: int, depth: int, tensor: TensorUnits) -> bool:
    """Whether a product is no smaller than one instruction of tensor units, either operand being that of rows."""
    least, most = sorted((tensor.rows, tensor.columns))
    return min(rows, columns) >= least and max(rows, columns) >= most and depth >= tensor.depth


def depth_step(nest: BlockNest, view: GpuView, split: int = 1) -> int:
    """Return the iterations of the depth loop that make a step: so many bytes of a row of an operand for each share.

    All shares have equally many, so that no thread sits out or reads beyond the step, and in generated code no fewer
    than a sector of a line has where the taps of a window take most of the row.
    """
    one = nest.product_of((1,) * len(nest.compiled.nest.write.shape))
    inner = 1 if one is None else max(1, one.depth // nest.depth)
    least = view.spec.l2.sector_bytes * BYTE_BITS // view.product_bits if inner > 1 and view.tuning.as_generated else 1
    wanted = max(split * view.tuning.step_bytes * BYTE_BITS // view.product_bits // inner, min(least, nest.depth))
    return -(-max(wanted, 1) // split) * split


def filled(shape: Sequence[int], dims: Sequence[int], wanted: int, start: Sequence[int], *, even: bool) -> list[int]:
    """Return ``start`` with up to ``wanted`` elements along ``dims``, the first of them first.

    ``even``: a dimension that has to be cut is cut into parts of equal size, as far as that goes.
    """
    tile = list(start)
    for dim in dims:
        size = shape[dim]
        if wanted >= size:
            tile[dim] = size
            wanted //= size
            continue
        if wanted > 1:
            tile[dim] = -(-size // -(-size // wanted)) if even else wanted
        break
    return tile
