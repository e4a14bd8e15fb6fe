"""What a thread block issues, class by class, counted on its loop program.

A warp issues an instruction for all of its threads, also where some of them have nothing to do. What is loaded from
shared memory and what hits the first cache takes the same path. What compilers do of their own accord is modelled once:
they write out short loops (`kernels.cost.written_out`) and load neighbours together (`GpuTuning.vector_bytes`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models import Issued
from dsascape.hw_models.common.product_types import operands_of
from dsascape.hw_models.gpu.occupancy import BlockNeeds
from dsascape.hw_models.gpu.sm import packed
from dsascape.scheduler.gpu.cost.counted import Counted
from dsascape.scheduler.gpu.cost.needs import needs_of
from dsascape.scheduler.gpu.cost.neighbours import aligned_neighbours, going_on, in_band, run_of
from dsascape.scheduler.gpu.cost.shape import GridShape
from dsascape.scheduler.gpu.cost.tensor import TensorWork
from dsascape.scheduler.gpu.cost.warps import access_of, aligned, run_of_threads
from dsascape.scheduler.gpu.lines import line_of
from dsascape.scheduler.gpu.transforms import LineWork, lines_taken, passes_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Move, Part, PartCost
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.loops.nodes import FACTOR, SHARES, Stage


@dataclass(frozen=True, slots=True)
class BlockCode:
    """Instructions of one block, and bytes that it moves through shared memory and the first cache."""

    issued: Issued
    shared_bytes: int


def block_of(reads: Reads, shape: GridShape, view: GpuView) -> tuple[BlockCode, BlockNeeds]:
    """Return what a block of a loop program issues, and what it takes of an SM."""
    counted = Counted(reads, shape, view)
    return _Block(counted).code(), needs_of(counted)


class _Block:
    """Instructions of one block being added up; each is issued by one warp."""

    def __init__(self, counted: Counted) -> None:
        self._counted, self._view, self._shape = counted, counted.view, counted.shape
        self._tuning, self._warp = counted.view.tuning, counted.view.spec.sms.warp
        self._banks = counted.view.spec.sms.shared.banks
        self._fma = self._arithmetic = self._special = self._load = self._store = self._scalar = 0.0
        self._matrix = self._shared_bytes = self._further_passes = self._waits = 0.0
        self._share = 1.0
        """Share of the part's iterations that are computed."""
        self._chains: list[tuple[float, float]] = []
        """Time that products take to issue, with the number of sums that are accumulated at a time."""
        self._others: list[tuple[float, float]] = []
        """Issue time of parts without products, with the number of sums that are accumulated at a time."""

    def code(self) -> BlockCode:
        """Return them as whole numbers."""
        for part, cost in self._counted.costs.items():
            self._add(part, cost)
        for line in lines_taken(self._counted.layer, self._shape.tile, self._shape.threads):
            self._take_at_once(line)
        self._wait_for_copies()
        passes = passes_of(self._counted.layer, self._shape.tile)
        self._fma, self._arithmetic, self._special = [
            each / passes for each in (self._fma, self._arithmetic, self._special)
        ]
        fma, arithmetic, special, load, store, scalar, matrix, waits, further = [
            math.ceil(each - 1e-9) for each in (
                self._fma, self._arithmetic, self._special, self._load, self._store, self._scalar, self._matrix,
                self._waits, self._further_passes,
            )
        ]  # fmt: skip
        issued = Issued(
            fma=fma, arithmetic=arithmetic, special=special, load=load, store=store, scalar=scalar, matrix=matrix,
            accumulators=max(round(_mean(self._chains or self._others)), 1), waits=waits, ahead=self._shape.stages,
            further_passes=further, held_up=further if self._tuning.as_generated else 0, per_cycle=self._per_cycle(),
        )  # fmt: skip
        return BlockCode(issued, math.ceil(self._shared_bytes))

    def _per_cycle(self) -> float:
        cycles = self._tuning.issue_cycles
        return -(-self._shape.threads // self._warp) / cycles if cycles else 0.0

    def _warps(self, executions: float, threads: int) -> float:
        """Return the instructions of warps of a block for so many executions of threads of the grid."""
        whole = -(-threads // self._warp) * self._warp / threads
        return executions * self._share / self._shape.blocks / self._warp * whole

    def _at_once(self, threads: int) -> float:
        """Return how many warps of a block work at a time where so many threads have something to do."""
        return float(-(-min(threads, self._shape.threads) // self._warp))

    def _add(self, part: Part, cost: PartCost) -> None:
        stage, made = self._counted.stages[part[0]], cost.operations
        self._share = self._counted.share_computed(stage.name)
        if _is_staged(stage):
            self._add_copy(cost)
            return
        executions = sum([self._warps(float(each.executions), each.threads) for each in cost.statements])
        is_product = self._counted.is_product(part)
        sums = max([float(band.accumulators) for band in cost.in_bands], default=1.0)
        pack = max(min(packed(self._view.dtype), sums), 1.0)
        tensor = self._counted.tensor.get(part[0]) if is_product else None
        if tensor is not None:
            matrix = tensor.instructions * self._share / self._shape.blocks
            self._matrix += matrix
            self._chains.append((matrix, self._at_once(tensor.warps * self._warp) * tensor.tiles))
            self._load_fragments(cost, tensor)
        elif is_product:
            pack = max(min(packed(operands_of(self._view.product or self._view.dtype)[0]), sums), 1.0)
            self._fma += executions * made.macs / pack
            self._chains.append((executions, self._at_once(cost.statements[0].threads) * sums // pack))
        else:
            self._fma += executions * made.macs / pack
            self._others.append((executions, self._at_once(cost.statements[0].threads) * sums // pack))
        is_move = stage.kind == "map" and not (made.macs or made.simple or made.special) and _only_moves(stage)
        self._arithmetic += executions * (made.simple + is_move) / pack
        self._special += executions * made.special
        for moved in cost.loads.values():
            for move in moved.moves if tensor is None else ():
                self._load_one(stage, move, is_operand=is_product)
        for moved in cost.stores.values():
            for move in moved.moves:
                self._store_one(move)
        self._add_loops(cost)

    def _add_loops(self, cost: PartCost) -> None:
        """Add the counters and branches of the loops around bands, the innermost of which compilers write out."""
        tuning = self._tuning
        for band in cost.in_bands:
            innermost = next((int(each) for each in band.around if each > 1), 1)
            if innermost > 1:
                bands = self._warps(float(band.bands), band.threads)
                self._scalar += bands * tuning.loop_instructions / min(tuning.unrolled, innermost)

    def _add_copy(self, cost: PartCost) -> None:
        """Add what brings operands to shared memory: neighbouring threads take neighbours, several at once each."""
        loads = [move for moved in cost.loads.values() for move in moved.moves]
        stores = [move for moved in cost.stores.values() for move in moved.moves]
        at_once = self._copied_at_once([*loads, *stores])
        for move in (*loads, *stores):
            accesses = self._warps(float(move.registers), move.threads) / at_once
            is_load = move.use.scope != "shared"
            self._load += accesses * is_load
            self._store += accesses * (not is_load)
            self._scalar += accesses * self._tuning.address_instructions
            neighbours = aligned(int(at_once), *run_of_threads(move))
            access = access_of(move, neighbours, self._warp, self._banks, of_copy=True)
            single = accesses * at_once / neighbours
            self._shared_bytes += 0 if is_load else single * access.size_bytes
            if is_load and self._tuning.as_generated:
                self._further_passes += single * access.further_lines
            elif not is_load:
                self._further_passes += accesses * access.further_passes

    def _copied_at_once(self, moves: Sequence[Move]) -> float:
        """Return how many neighbours an instruction of a thread copies: as both memories have them, if code does."""
        tuning, size = self._tuning, moves[0].element_bytes
        most = max(max(tuning.vector_bytes, tuning.copied_bytes) // size, 1)
        if tuning.vector_bytes >= tuning.copied_bytes:
            return float(most)
        least = max(tuning.vector_bytes // size, 1)
        return float(max(min([aligned(most, *run_of_threads(move)) for move in moves]), least))

    def _load_one(self, stage: Stage, move: Move, *, is_operand: bool) -> None:
        if any(each.window > 1 for each, _ in move.use.place.derived):
            if not _is_line(stage, move):
                self._load_windows(move)
            return
        is_shared = move.use.scope == "shared"
        at_once = self._together(move, is_operand=is_operand)
        loads = self._warps(float(move.registers), move.threads) / at_once
        self._load += loads
        self._move(move, loads, at_once, is_operand=is_operand)
        if not is_shared:
            self._scalar += 0 if is_operand else loads * self._tuning.address_instructions
            busy = min(move.threads, self._shape.threads)
            each = float(move.registers) * self._share / at_once / self._shape.blocks / busy
            self._waits += each / self._tuning.loads_ahead

    def _load_windows(self, move: Move) -> None:
        """Add loads of neighbours that results need together, as a search needs a row: all threads take part in them.

        Each such window is taken once in a block.
        """
        size = math.prod([each.window for each, _ in move.use.place.derived])
        moving = [loop for loop in move.loops if loop.kind != "block" and loop.name in move.use.place.moving]
        elements = size * math.prod([int(loop.extent) for loop in moving])
        at_once = max(min(self._tuning.vector_bytes // move.element_bytes, size), 1)
        loads = elements / at_once / self._warp
        self._load += loads
        self._shared_bytes += elements * move.element_bytes
        self._scalar += loads * self._tuning.address_instructions
        if move.use.scope != "shared":
            threads = -(-self._shape.threads // self._warp) * self._warp
            self._waits += elements / at_once / threads / self._tuning.loads_ahead

    def _load_fragments(self, cost: PartCost, tensor: TensorWork) -> None:
        """Add loads of operands of tensor units: a second one may be shared by several warps."""
        units = self._view.tensor
        assert units is not None
        shared_by = 1
        for moved in cost.loads.values():
            size_bytes = sum([float(move.registers) * move.element_bytes for move in moved.moves])
            if moved.moves:
                size_bytes *= self._share / (self._shape.blocks * shared_by)
                self._shared_bytes += size_bytes
                self._load += size_bytes / self._tuning.vector_bytes / self._warp
                shared_by = min(units.warps, tensor.warps)

    def _store_one(self, move: Move) -> None:
        at_once = self._together(move, is_operand=False)
        stores = self._warps(float(move.registers), move.threads) / at_once
        self._store += stores
        self._scalar += stores * self._tuning.address_instructions
        if move.use.scope == "shared":
            self._move(move, stores, at_once, is_operand=False)

    def _move(self, move: Move, accesses: float, at_once: float, *, is_operand: bool) -> None:
        """Add what accesses of warps move, and the further passes that they take."""
        neighbours = aligned_neighbours(move, int(at_once))
        access = access_of(move, neighbours, self._warp, self._banks)
        single = accesses * at_once / neighbours
        self._shared_bytes += single * access.size_bytes
        if move.use.scope == "shared":
            self._further_passes += single * access.further_passes * is_operand
        elif self._tuning.as_generated:
            self._further_passes += single * access.further_lines

    def _together(self, move: Move, *, is_operand: bool) -> float:
        """Return how many elements one instruction of a thread moves."""
        most = max(self._tuning.vector_bytes // move.element_bytes, 1)
        # Libraries lay copies out so that what a thread takes at a time lies together.
        run = max(in_band(move), going_on(move)) if is_operand else run_of(move)
        return float(max(1, min(most, run)))

    def _take_at_once(self, line: LineWork) -> None:
        """Add the loads of lines that are transformed, and what threads pass to each other in shared memory."""
        vector = max(1, min(self._tuning.vector_bytes // line.element_bytes, line.by_thread))
        loads = line.elements / vector
        self._load += (loads + line.exchanged) / self._warp
        self._store += line.exchanged / self._warp
        self._scalar += loads * self._tuning.address_instructions / self._warp
        self._shared_bytes += (line.elements + 2 * line.exchanged) * line.element_bytes
        if line.is_outside:
            self._waits += loads / self._shape.threads / self._tuning.loads_ahead

    def _wait_for_copies(self) -> None:
        """Add the steps in which operands are staged, at the end of each of which the block waits."""
        steps: dict[str, float] = {}
        for placed in self._counted.placed:
            name = placed.statement.stage
            stage = self._counted.stages[name]
            if _is_staged(stage) and placed.statement.role == "store":
                around = [loop for loop in placed.around if loop.kind not in ("block", "thread", "unrolled")]
                times = math.prod([int(loop.extent) for loop in around]) * self._counted.share_computed(name)
                group = self._counted.program.buffer(name).inside
                steps[group] = max(steps.get(group, 0), times)
        self._waits += sum(steps.values())


def _is_staged(stage: Stage) -> bool:
    """Whether a stage copies an operand to shared memory."""
    return stage.kind == "copy" and not stage.name.endswith((SHARES, FACTOR))


def _only_moves(stage: Stage) -> bool:
    """Whether a stage computes nothing: it stores what it reads."""
    return not any(nest.has_reduction or nest.per_iteration.flops or nest.per_output.flops for nest in stage.nests)


def _is_line(stage: Stage, move: Move) -> bool:
    """Whether a load takes a line that a transform combines in stages."""
    return any(
        read.tensor == move.use.array and line_of(nest, read) is not None for nest in stage.nests for read in nest.reads
    )


def _mean(found: list[tuple[float, float]]) -> float:
    """Return how many sums are being added up at a time, in the mean over the time that waiting for them takes."""
    total = sum([each for each, _ in found])
    return total / sum([each / max(chains, 1) for each, chains in found]) if total else 0.0
