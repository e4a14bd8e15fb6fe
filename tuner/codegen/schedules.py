"""Loops of a kernel as its tiles say: TVM schedules made of a kernel's stages."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import te, tirx

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, dividing
from dsascape.scheduler.cpu.structure.anchors import anchored_nest, vector_lanes
from dsascape.scheduler.cpu.structure.passes import MOST_VECTORS, pieces_of_row
from dsascape.tuner.codegen.local_values import with_local_values
from dsascape.tuner.codegen.parts_apart import mark_part, with_parts_apart
from dsascape.tuner.codegen.stages import Stages
from dsascape.tuner.codegen.tile_buffers import UpstreamStages

_MOST_UNROLLED = 16
"""Iterations of a loop that stores results of a register tile."""


def kernel_function(stages: Stages, tiles: LoopTiles, name: str, lanes: int) -> Any:
    """Return the PrimFunc ``name`` with the loops of ``tiles``; parameters are inputs, then outputs.

    ``lanes`` are those of the machine's vectors.
    """
    function = te.create_prim_func([*stages.placeholders, *stages.results])
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": function}))
    if stages.anchor is not None:
        _Tiled(schedule, stages, tiles, lanes).apply()
    else:
        schedule = _untiled(schedule, stages, tiles, lanes)
    function = with_local_values(schedule.mod["main"])
    function = function if stages.chain is None else with_parts_apart(function)
    return function.with_attr("global_symbol", name)


class _Tiled:
    """The schedule of a kernel around its anchor."""

    def __init__(self, schedule: Any, stages: Stages, tiles: LoopTiles, lanes: int) -> None:
        assert stages.anchor is not None
        self.sch, self.stages, self.tiles, self.anchor = schedule, stages, tiles, stages.anchor
        self.lanes = vector_lanes(stages.anchor.nest, tiles, lanes)
        self.most_lanes = tiles.lanes(lanes)
        dim = stages.anchor.vector_dim
        self.cut = stages.anchor.padded[dim] != stages.anchor.nest.write.shape[dim]
        sink = stages.results[0].op
        self.order = stages.order
        self.sum = schedule.get_sblock(stages.anchor_stage)
        self.out = schedule.get_sblock(sink.name)
        self.whole = schedule.get_sblock(stages.whole_stage) if stages.whole_stage else None

    def apply(self) -> None:
        sch = self.sch
        padded = [block for block in _blocks(sch) if sch.get(block).name_hint.startswith("padded")]
        self._split()
        sch.set_scope(self.sum, 0, "local" if self.tiles.depth_step is None else "global")
        at = self._tile_loop if self.tiles.depth_step is not None else self._register_loop
        if self.whole is not None:
            sch.set_scope(self.whole, 0, "local")
            sch.reverse_compute_at(self.whole, at, preserve_unit_loops=True)
        sch.reverse_compute_at(self.out, at, preserve_unit_loops=True)
        for block in reversed(padded):
            sch.compute_at(block, self._tile_loop, preserve_unit_loops=True)
            self._vectorise_copy(block)
        fronts = self._place_fronts()
        self._store()
        first = sch.decompose_reduction(self.sum, self._first_reduction)
        self._unroll(first)
        for number, front in enumerate(fronts):
            front.decompose()
            mark_part(sch, front.loops[0], number)

    def _place_fronts(self) -> list["_Front"]:
        """Compute what anchors in front of the last make, and copies of it, inside the loops over tiles."""
        chain, sch, found = self.stages.chain, self.sch, []
        if chain is None:
            return []
        for copy in chain.copies:
            inside = (self._inside_of + self._middles)[: copy.loops]
            self._vectorise_copy(_computed_at(sch, copy.name, inside))
        for stages in reversed(chain.stages):
            inside = self._inside_of[: stages.made.loops]
            result, total = _computed_at(sch, stages.result, inside), _computed_at(sch, stages.total, inside)
            front = _Front(sch, stages, total, result, self.most_lanes)
            for copy in stages.copies:
                self._vectorise_copy(_computed_at(sch, copy.name, inside + front.loops[: copy.loops]))
            found.append(front)
        return found

    def _split(self) -> None:
        sch, tiles, order = self.sch, self.tiles, self.order
        loops = sch.get_loops(self.sum)
        space, depth = loops[: len(order)], loops[len(order) :]
        outer: dict[int, Any] = {}
        middle: dict[int, Any] = {}
        register: list[Any] = []
        for loop, dim in zip(space, order, strict=True):
            small = tiles.register[dim]
            steps = -(-tiles.tile[dim] // small)
            outer[dim], middle[dim], inner = sch.split(loop, [None, steps, small])
            if dim == tiles.vector_dim and small > self.lanes and small % self.lanes == 0:
                register += sch.split(inner, [None, self.lanes])
            else:
                register.append(inner)
        steps_loop = None
        if tiles.depth_step is not None:
            steps_loop, inside = sch.split(depth[-1], [None, tiles.depth_step])
            depth = [*depth[:-1], inside]
        outers, middles = [outer[d] for d in tiles.order], [middle[d] for d in tiles.order]
        sch.reorder(*outers, *([] if steps_loop is None else [steps_loop]), *middles, *depth, *register)
        self._middles, self._register_loop = middles, middles[-1]
        self._first_reduction = depth[0] if steps_loop is None else steps_loop
        self._inside_of = list(outers)
        if tiles.parallel:
            fused = sch.fuse(*outers[: tiles.parallel]) if tiles.parallel > 1 else outers[0]
            sch.parallel(fused)
            self._inside_of[: tiles.parallel] = [fused] * tiles.parallel
        self._tile_loop = self._inside_of[-1]
        for loop in register[:-1]:
            sch.unroll(loop)
        self._count = len(register)
        sch.vectorize(register[-1])

    def _store(self) -> None:
        """Vectorise and unroll the loops in which results leave the registers."""
        sch, count = self.sch, len(self.order)
        if self.whole is not None:
            _store_registers(sch, sch.get_loops(self.whole)[-count:], self.lanes)
        if self.cut:
            return  # what lies inside is copied, in vectors as the compiler can make them
        _store_registers(sch, sch.get_loops(self.out)[-count:], self.lanes, unrolled=self.tiles.depth_step is None)

    def _vectorise_copy(self, block: Any) -> None:
        sch = self.sch
        last = sch.get_loops(block)[-1]
        if not isinstance(sch.get(last).extent, tirx.IntImm):
            return
        extent = int(sch.get(last).extent)
        lanes = dividing(extent, self.most_lanes)
        if lanes > 1:
            sch.vectorize(sch.split(last, [None, lanes])[1])

    def _unroll(self, first: Any) -> None:
        """Unroll the register tile's start values like its sums."""
        sch = self.sch
        if self.tiles.depth_step is None:
            for loop in sch.get_loops(first)[-self._count : -1]:
                sch.unroll(loop)


def _computed_at(sch: Any, name: str, loops: Sequence[Any]) -> Any:
    """Return the block ``name``, computed inside the last of ``loops``."""
    block = sch.get_sblock(name)
    if loops:
        sch.compute_at(block, loops[-1], preserve_unit_loops=True)
    return block


class _Front:
    """An anchor in front of the last: its loops for one tile, split into register tiles.

    What follows it is computed where each of them leaves the registers.
    """

    def __init__(self, schedule: Any, stages: UpstreamStages, total: Any, result: Any, most_lanes: int) -> None:
        self.sch, self.sum = schedule, total
        tiles, order = stages.made.tiles, stages.order
        anchor = anchored_nest(stages.made.layer)
        assert anchor is not None
        lanes = vector_lanes(anchor, tiles, most_lanes)
        loops = schedule.get_loops(total)
        first = len(loops) - _reduction_loops(schedule, total)
        depth = loops[first:]
        middle: dict[int, Any] = {}
        register: list[Any] = []
        for loop, dim in zip(loops[first - len(order) : first], order, strict=True):
            # the next part may need less than whole register tiles; the buffer has room for them
            middle[dim], inner = schedule.split(loop, [None, tiles.register[dim]], disable_predication=True)
            if dim == tiles.vector_dim and tiles.register[dim] > lanes:
                register += schedule.split(inner, [None, lanes])
            else:
                register.append(inner)
        self.loops = [middle[dim] for dim in tiles.order]
        """Over register tiles, outermost first."""
        schedule.reorder(*self.loops, *depth, *register)
        schedule.set_scope(total, 0, "local")
        schedule.reverse_compute_at(result, self.loops[-1], preserve_unit_loops=True)
        for loop in register[:-1]:
            schedule.unroll(loop)
        schedule.vectorize(register[-1])
        self._depth, self._count = depth[0], len(register)
        _store_registers(schedule, schedule.get_loops(result)[-len(order) :], lanes)

    def decompose(self) -> None:
        """Let sums begin at zero."""
        first = self.sch.decompose_reduction(self.sum, self._depth)
        for loop in self.sch.get_loops(first)[-self._count : -1]:
            self.sch.unroll(loop)


def _blocks(sch: Any) -> list[Any]:
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def _store_registers(sch: Any, loops: Sequence[Any], lanes: int, *, unrolled: bool = True) -> None:
    """Vectorise the innermost of the loops that store a register tile, unroll the others."""
    extent = int(sch.get(loops[-1]).extent)
    if extent > lanes and extent % lanes == 0:
        outer, inner = sch.split(loops[-1], [None, lanes])
        sch.unroll(outer)
        sch.vectorize(inner)
    elif extent > 1:
        sch.vectorize(loops[-1])
    for loop in loops[:-1]:
        if unrolled and 1 < int(sch.get(loop).extent) <= _MOST_UNROLLED:
            sch.unroll(loop)


def _untiled(sch: Any, stages: Stages, tiles: LoopTiles, lanes: int) -> Any:
    """Return the schedule without register tiles: outer loops split over threads, vectors along the innermost.

    Where reductions are behind one another, all of them are finished for one row of the output before the next, if what
    they read of each other lies in that row; else each is finished as a whole.
    """
    if len(_blocks(sch)) > 1 and stages.reductions and len(stages.results) == 1:
        alone = sum(tiles.tile[dim] == 1 for dim in _leading(tiles))
        for rows in range(alone, 0, -1):
            trial = sch.copy()
            try:
                _by_rows(trial, stages, rows, tiles, lanes)
            except RuntimeError:  # TVM's refusal: rows read of one another
                continue
            return trial
    for block in _blocks(sch):
        _flat(sch, block, stages, tiles, lanes)
    return sch


def _leading(tiles: LoopTiles) -> Sequence[int]:
    """Return the outermost dimensions of which a tile has one element."""
    found = []
    for dim in tiles.order[:-1]:
        if tiles.tile[dim] != 1:
            break
        found.append(dim)
    return found


def _by_rows(sch: Any, stages: Stages, rows: int, tiles: LoopTiles, lanes: int) -> None:
    """Compute everything for one place in the outer ``rows`` loops of the sink at a time."""
    sink_name = stages.results[0].op.name
    blocks, sink = _blocks(sch), sch.get_sblock(sink_name)
    loops = sch.get_loops(sink)[:rows]
    split = min(tiles.parallel, rows) or rows
    outer = sch.fuse(*loops[:split]) if split > 1 else loops[0]
    inner = [outer, *loops[split:]]
    for block in reversed(blocks):
        if sch.get(block).name_hint != sink_name:
            sch.compute_at(block, inner[-1], preserve_unit_loops=True)
    if tiles.parallel:
        sch.parallel(outer)
    for block in blocks:
        _vectorise_last(sch, block, stages, lanes, after=len(inner))


def _flat(sch: Any, block: Any, stages: Stages, tiles: LoopTiles, lanes: int) -> None:
    """Split the outer loops over threads, vectorise the innermost elements."""
    loops = sch.get_loops(block)
    space = loops[: len(loops) - _reduction_loops(sch, block)]
    outer = space[: min(tiles.parallel, len(space) - 1)] if space else []
    if outer:
        sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
    if space:
        _vectorise_last(sch, block, stages, lanes, after=min(len(outer), 1))


def _reduction_loops(sch: Any, block: Any) -> int:
    return sum(int(iterator.iter_type) == tirx.IterVar.CommReduce for iterator in sch.get(block).iter_vars)


def _vectorise_last(sch: Any, block: Any, stages: Stages, lanes: int, after: int) -> None:
    """Vectorise the innermost elements inside of the first ``after`` loops.

    A reduction runs for a few vectors of elements at a time, which registers hold.
    """
    loops = sch.get_loops(block)[after:]
    first = len(loops) - _reduction_loops(sch, block)
    space, depth = loops[:first], loops[first:]
    long = [loop for loop in space if int(sch.get(loop).extent) > 1]
    extent = int(sch.get(long[-1]).extent) if long else 1
    width = 1 if sch.get(block).name_hint in stages.apart else dividing(extent, lanes)
    if depth and width > 1:
        vectors = max(each for each in range(1, MOST_VECTORS + 1) if extent // width % each == 0)
        outer, several, lane = sch.split(long[-1], [None, vectors, width])
        sch.reorder(outer, *depth, several, lane)
        sch.unroll(several)
        sch.vectorize(lane)
        begin = sch.decompose_reduction(block, depth[0])
        sch.unroll(sch.get_loops(begin)[-2])
    elif depth:
        sch.decompose_reduction(block, depth[0])
    elif extent > 1:
        _vectorise_row(sch, long[-1], pieces_of_row(extent, lanes))


def _vectorise_row(sch: Any, loop: Any, pieces: Sequence[tuple[int, int]]) -> None:
    """Cut a loop into ``pieces``, each of so many vectors of so many lanes."""
    parts = [loop]
    if len(pieces) > 1:
        sizes = [count * lanes for count, lanes in pieces[:-1]]
        parts = sch.loop_partition(loop, [*sizes, None], preserve_unit_iters=True)
    for part, (count, lanes) in zip(parts, pieces, strict=True):
        if lanes > 1:
            sch.vectorize(sch.split(part, [None, lanes])[1] if count > 1 else part)
