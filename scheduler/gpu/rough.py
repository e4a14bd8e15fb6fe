"""About what a thread block issues for its tile, class by class, and takes of an SM: what candidates are ordered by.

The best of them are costed on their loop programs (`scheduler.gpu.cost`). This knows of no bank conflicts, of no
register that several taps of a window share, and of no loop that a compiler writes out. A part of the tile keeps its
sums in a thread's registers (a warp's, on tensor units) while the depth loop runs, so each element of an operand that a
part loads is used for all rows or columns of the part. Products on tensor units are padded to whole instructions, and
everybody's parts to whole ones. Threads that split a reduction put their sums together in shared memory. What is loaded
from shared memory and what hits the first cache takes the same path.
"""

import math
from collections.abc import Sequence

from dsascape.hw_models import Issued
from dsascape.hw_models.common.product_types import operands_of
from dsascape.hw_models.gpu.occupancy import BlockNeeds
from dsascape.hw_models.gpu.sm import packed
from dsascape.scheduler.gpu.cost.issued import BlockCode
from dsascape.scheduler.gpu.fronts import tensor_tiles
from dsascape.scheduler.gpu.lines import results_along
from dsascape.scheduler.gpu.nests import BlockNest, BlockNests, NestWork, nests_of
from dsascape.scheduler.gpu.parts import Parts, operands_bytes, parts_of, sharing_of, slots, staged_bytes
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.transforms import passes_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents, Operations

SUM_BYTES = 4
"""Bytes of a partial sum: FP32 or INT32."""
_PATCH_COLUMNS = 8
"""Threads of a warp that lie along the columns of a product: the others lie along its rows."""


def block_needs(layer: Layer, tiles: GpuTiles, view: GpuView) -> BlockNeeds:
    """Return what a block takes of an SM.

    Results of contractions in front of the last one lie in shared memory, beside what is staged at a time, or the sums
    of threads that share a reduction. A thread has the registers that any contraction needs.
    """
    nests = nests_of(layer)
    sms, tuning = view.spec.sms, view.tuning
    held = staged = registers = sums_kept = 0
    running = next((each for each in nests.statistics if nests.nests[each].compiled.nest.running), -1)
    for number, (nest, work) in enumerate(zip(nests.nests, nests.works(layer, tiles.tile, tiles.stream), strict=True)):
        if nest.is_shared:
            copies = 2 if tiles.stream is not None and number == running else 1  # a factor beside a maximum
            held += copies * math.ceil(work.most_outputs * nest.element_bytes)
        parts = parts_of(nests, number, layer, tiles, sms.warp)
        if parts is not None:
            registers = max(registers, _registers(nest, parts, view))
            if nest.is_anchor and tiles.stream is not None:  # kept while fronts have sums of their own
                sums_kept = _sum_registers(parts, view)
            if parts.depth_step is not None:
                size = slots(nest, parts.depth_step, tiles.stages) * staged_bytes(nest, parts, parts.depth_step)
                if nest.is_anchor and tiles.stream is not None and parts.depth_step >= tiles.stream:
                    held += size  # on its way while the next piece is computed
                else:
                    staged = max(staged, size)
        elif number in nests.statistics:
            together = sharing_of(nests, number, work, tiles, sms.warp)
            staged = max(staged, math.ceil(work.outputs * together * nest.element_bytes) if together > 1 else 0)
        if any(read.line is not None for read in nest.reads):
            staged = max(staged, math.ceil(work.outputs * nest.element_bytes))
    if nests.anchor < 0 or not nests.nests[nests.anchor].is_tiled:
        registers = max(registers, 2 * math.prod(tiles.part))
    sums = tiles.split * math.prod(tiles.tile) * SUM_BYTES if tiles.split > 1 else 0
    registers += tuning.base_registers + sums_kept
    return BlockNeeds(tiles.threads(sms.warp), registers, held + max(staged, sums))


def _sum_registers(parts: Parts, view: GpuView) -> int:
    """Return the registers of a thread for its part's sums."""
    return -(-parts.elements // view.spec.sms.warp) if parts.unit == "tensor" else parts.elements


def _registers(nest: BlockNest, parts: Parts, view: GpuView) -> int:
    """Return the registers of a thread for its part's sums and operands."""
    elements, operands = parts.elements, (parts.own.rows + parts.own.columns) * parts.own.number
    if parts.unit == "tensor":
        tensor, warp = view.tensor, view.spec.sms.warp
        assert tensor is not None
        element_bytes = max([read.element_bytes for read in nest.reads])
        operands = math.ceil(operands * tensor.depth * element_bytes / (warp * 4))
        elements = -(-elements // warp)
    return elements + operands


def operations_of(layer: Layer, tile: Extents) -> Operations:
    """Return the operations that a block does which computes ``tile``, a whole one or that of an edge."""
    made = [work.operations for work in nests_of(layer).works(layer, tile)]
    return Operations(
        sum([each.macs for each in made]), sum([each.simple for each in made]), sum([each.special for each in made])
    )


def rough_code(layer: Layer, tiles: GpuTiles, view: GpuView) -> BlockCode:
    """Return about what a block with a whole tile issues."""
    return _Block(layer, nests_of(layer), tiles, view).code()


def _mean_chains(found: Sequence[tuple[int, int]]) -> int:
    """Return how many sums are being added up at a time, in the mean over the time that waiting for them takes."""
    macs = sum([each for each, _ in found])
    return round(macs / sum([each / max(chains, 1) for each, chains in found])) if macs else 0


class _Block:
    """Instructions of one block being added up, by thread; a warp issues one for all of its threads."""

    def __init__(self, layer: Layer, nests: BlockNests, tiles: GpuTiles, view: GpuView) -> None:
        self._layer, self._nests, self._tiles, self._view = layer, nests, tiles, view
        self._warp = view.spec.sms.warp
        self._of_part = math.prod(tiles.part)
        self._pack = min(packed(view.dtype), self._of_part)
        self._inner = tiles.part[layer.sink.order[-1]] if tiles.part else 1
        self._fma = self._arithmetic = self._special = self._load = self._store = self._scalar = 0.0
        self._matrix = self._steps = 0.0
        self._shared_bytes = 0.0
        self._outside_loads = 0.0
        self._ahead = 1
        self._chains: list[tuple[int, int]] = []
        """Multiply-accumulates of each contraction, with the number of sums that are accumulated at a time."""

    def code(self) -> BlockCode:
        tiles, nests = self._tiles, self._nests
        parts = tiles.parts(tiles.tile)
        works = nests.works(self._layer, tiles.tile, tiles.stream)
        of_part = nests.works(self._layer, tiles.part, tiles.stream)
        passes = passes_of(self._layer, tiles.tile)
        padding = parts * self._of_part / max(math.prod(tiles.tile), 1)
        own_threads = parts * tiles.split * (self._warp if tiles.unit == "tensor" else 1)
        whole_warps = -(-own_threads // self._warp) * self._warp / own_threads
        for number, times in nests.runs:
            nest, work, own = nests.nests[number], works[number], of_part[number]
            alike = times * work.share / (tiles.shares if number <= nests.reduction else 1)
            alike *= 1.0 if nest.is_of_block else whole_warps
            made, outputs = work.operations, work.outputs
            shared_out = parts_of(nests, number, self._layer, tiles, self._warp)
            if shared_out is not None:
                self._multiply(nest, work, shared_out, work.share)
            else:
                if made.macs:
                    self._fma += alike * made.macs / passes * padding
                self._scalar += alike * self._loops(max(made.macs, outputs) * padding, self._of_part)
                each = alike * parts * own.share / work.share
                alone = 1.0
                if number in nests.statistics:
                    busy = work.outputs * sharing_of(nests, number, work, tiles, self._warp)
                    alike *= -(-busy // self._warp) * self._warp / max(busy, 1)  # warps that are not full
                    alone = max(tiles.threads(self._warp) / max(busy, 1), 1.0)
                self._read(nest, *((work, alike) if nest.is_of_block else (own, each)), alone)
                self._take_at_once(nest, work, own, alike)
            self._arithmetic += alike * (made.simple / passes + (0 if made else outputs)) * padding
            if made.special:
                self._special += alike * made.special / passes * padding
            self._write(nest, work, alike)
        if tiles.split > 1:
            self._put_together()
        if tiles.shares > 1:
            self._store += works[nests.reduction].outputs
        return BlockCode(self._issued(parts), math.ceil(self._shared_bytes))

    def _issued(self, parts: int) -> Issued:
        tiles, tuning, warp = self._tiles, self._view.tuning, self._warp
        threads = tiles.threads(warp)
        pack = self._pack
        by_thread = (
            self._fma / pack, self._arithmetic / pack, self._special, self._load, self._store, self._scalar
        )  # fmt: skip
        fma, arithmetic, special, load, store, scalar = [math.ceil(count / warp - 1e-9) for count in by_thread]
        straight = math.ceil(self._outside_loads / max(threads, 1) / tuning.loads_ahead)
        chains = _mean_chains(self._chains) or -(-parts * tiles.split // warp) * self._of_part // pack
        return Issued(
            fma=fma, arithmetic=arithmetic, special=special, load=load, store=store, scalar=scalar,
            matrix=math.ceil(self._matrix), accumulators=max(chains, 1), waits=math.ceil(self._steps) + straight,
            ahead=self._ahead, per_cycle=self._per_cycle(threads),
        )  # fmt: skip

    def _per_cycle(self, threads: int) -> float:
        cycles = self._view.tuning.issue_cycles
        return -(-threads // self._warp) / cycles if cycles else 0.0

    def _loops(self, iterations: float, of_part: int) -> float:
        """Return what loops issue that take the ``of_part`` elements of a part at a time."""
        tuning = self._view.tuning
        return iterations * tuning.loop_instructions / tuning.unrolled / of_part

    def _multiply(self, nest: BlockNest, work: NestWork, parts: Parts, share: float) -> None:
        """Add the multiply-accumulates of a product, and the loads of its operands from shared memory."""
        warp, own = self._warp, parts.own
        together = share * parts.working * own.number * parts.depth
        left_bytes, right_bytes = [read.element_bytes for read in nest.reads[:2]]
        if parts.unit == "tensor":
            tensor = self._view.tensor
            assert tensor is not None
            steps = -(-parts.depth // tensor.depth)
            tiled = tensor_tiles(own.rows, own.columns, tensor)
            issued = share * parts.working * own.number * tiled * steps
            self._matrix += issued
            self._chains.append((work.operations.macs, parts.at_once * own.number * tiled))
            left = together * own.rows * left_bytes
            right = together * own.columns * right_bytes / min(tensor.warps, parts.number)
            self._shared_bytes += left + right
            loads = [each / self._view.tuning.vector_bytes for each in (left, right)]
            self._scalar += self._loops(issued * warp, parts.elements)
        else:
            pack = min(packed(operands_of(self._view.product or self._view.dtype)[0]), parts.elements)
            issued = together * -(-parts.at_once // warp) * warp / parts.at_once  # by whole warps
            self._fma += issued * own.rows * own.columns * self._pack / pack
            self._chains.append((work.operations.macs, -(-parts.at_once // warp) * parts.elements // pack))
            columns = min(_PATCH_COLUMNS, warp, -(-parts.whole.columns // own.columns))
            rows = min(warp // columns, -(-parts.whole.rows // own.rows))
            left, right = together * own.rows, together * own.columns
            self._shared_bytes += left * left_bytes / columns + right * right_bytes / rows
            left, right = issued * own.rows, issued * own.columns
            loads = [left / self._vector(left_bytes, own.rows), right / self._vector(right_bytes, own.columns)]
            self._scalar += self._loops(issued * own.rows * own.columns, parts.elements)
        self._load += sum(loads)
        if parts.depth_step is not None:
            self._stage(nest, work, parts, share)
            return
        for read, each in zip(nest.reads, loads, strict=False):
            self._outside_loads += each if read.source != "shared" else 0.0

    def _vector(self, element_bytes: float, neighbours: int) -> int:
        """Return how many elements one load or store of a thread moves, of so many next to each other."""
        return max(1, min(int(self._view.tuning.vector_bytes / element_bytes), neighbours))

    def _stage(self, nest: BlockNest, work: NestWork, parts: Parts, share: float) -> None:
        """Add what brings operands from outside into shared memory, step by step, in each turn."""
        assert parts.depth_step is not None
        depth = nest.depth if nest.depth_loop is None else min(nest.depth, work.extents[nest.depth_loop])
        tuning, step = self._view.tuning, min(parts.depth_step, depth)
        steps = -(-depth // step)
        each = operands_bytes(nest, parts.staged, step)
        for size in each:
            staged = share * parts.turns * steps * size
            copies = staged / max(tuning.vector_bytes, tuning.copied_bytes)
            self._load += copies
            self._store += copies
            self._scalar += 2 * copies * tuning.address_instructions
            self._shared_bytes += staged
        self._steps += share * parts.turns * steps
        self._ahead = max(self._ahead, slots(nest, step, self._tiles.stages))

    def _read(self, nest: BlockNest, work: NestWork, times: float, alone: float) -> None:
        """Add the loads of a nest without reuse, ``times`` those for ``work``.

        ``alone``: threads of the block for each that has some of them, and waits for these.
        """
        tuning, inner = self._view.tuning, self._inner
        for read, each in zip(nest.reads, work.read, strict=True):
            source, element_bytes = read.source, read.element_bytes
            if source in ("registers", "staged") or read.line is not None:
                continue
            elements = times * each
            loads = elements / max(1, min(tuning.vector_bytes // element_bytes, inner))
            self._load += loads
            self._shared_bytes += elements * element_bytes
            if source == "outside":
                self._outside_loads += loads * alone
                self._scalar += loads * tuning.address_instructions

    def _take_at_once(self, nest: BlockNest, work: NestWork, own: NestWork, times: float) -> None:
        """Add the loads of lines that are transformed, and what threads pass to each other in shared memory."""
        tuning, loop_nest = self._view.tuning, nest.compiled.nest
        for access, read in zip(loop_nest.reads, nest.reads, strict=True):
            line = read.line
            if line is None:
                continue
            elements = times * work.outputs * line.elements / line.results
            loads = elements / max(1, min(tuning.vector_bytes // read.element_bytes, self._inner))
            self._load += loads
            self._scalar += loads * tuning.address_instructions
            self._outside_loads += loads if read.source == "outside" else 0
            made, by_thread = [results_along(loop_nest, access, each.extents) for each in (work, own)]
            exchanged = times * work.outputs * line.exchanges(made, by_thread)
            self._load += exchanged
            self._store += exchanged
            self._shared_bytes += (elements + 2 * exchanged) * read.element_bytes

    def _write(self, nest: BlockNest, work: NestWork, times: float) -> None:
        """Add the stores of a nest, ``times`` those for ``work``."""
        outputs = times * work.outputs
        stores = outputs / self._vector(nest.element_bytes, self._inner)
        copies = (nest.writes == "outside") + nest.is_shared
        self._store += copies * stores
        self._scalar += copies * stores * self._view.tuning.address_instructions
        if nest.is_shared:
            self._shared_bytes += outputs * nest.element_bytes

    def _put_together(self) -> None:
        """Add the partial sums of threads that share a reduction, which are added up in halves.

        All warps take part in each half where the threads that share one lie next to each other; on tensor units, whose
        warps do, those that have nothing left to add are idle.
        """
        tiles = self._tiles
        sums = float((tiles.split - 1) * math.prod(tiles.tile))
        if tiles.unit == "lanes" and self._view.tuning.as_generated:
            halves = math.ceil(math.log2(tiles.split))
            sums = float(halves * tiles.parts(tiles.tile) * tiles.split * self._of_part)
        self._store += sums
        self._load += sums
        self._arithmetic += sums
        self._shared_bytes += 2 * sums * SUM_BYTES
