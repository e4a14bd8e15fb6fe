"""What a thread block issues, class by class, counted on its loop program.

A warp issues an instruction for all of its threads, also where some of them have nothing to do. What is loaded from
shared memory and what hits the first cache takes the same path. What compilers do of their own accord is modelled once:
they write out short loops (`kernels.cost.written_out`) and load neighbours together (`GpuTuning.vector_bytes`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models import Issued
from dsascape.hw_models.common.product_types import operands_of
from dsascape.hw_models.gpu.occupancy import BlockNeeds
from dsascape.hw_models.gpu.sm import packed
from dsascape.scheduler.gpu.cost.counted import Counted
from dsascape.scheduler.gpu.cost.needs import needs_of
from dsascape.scheduler.gpu.cost.pattern import Pattern, aligned, patterns_of
from dsascape.scheduler.gpu.cost.shape import GridShape
from dsascape.scheduler.gpu.cost.tensor import TensorWork
from dsascape.scheduler.gpu.cost.warps import access_of
from dsascape.scheduler.gpu.lines import line_of
from dsascape.scheduler.gpu.transforms import lines_taken, passes_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Move, Part, PartCost
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.loops.columns import Size, by_row, chosen, least, most, most_of, whole
from dsascape.scheduler.kernels.loops.nodes import FACTOR, SHARES, Stage

_HALF = 0.5
Amount = Any
"""A number, or a column of numbers by candidate."""


@dataclass(frozen=True, slots=True)
class BlockCode:
    """Instructions of one block, and bytes that it moves through shared memory and the first cache."""

    issued: Issued
    shared_bytes: int


class Block(NamedTuple):
    """A block of one candidate."""

    code: BlockCode
    needs: BlockNeeds
    is_exact: bool
    """Whether these are no lower bounds."""


def blocks_of(reads: Reads, shape: GridShape, view: GpuView, *, at_best: bool = False) -> list[Block]:
    """Return what a block of each candidate of a loop program issues, and what it takes of an SM.

    ``at_best``: lower bounds will do where candidates differ in the loops that compilers write out.
    """
    counted = Counted(reads, shape, view, at_best=at_best)
    return list(map(Block, _Block(counted).codes(), needs_of(counted), counted.listed(counted.is_exact)))


class _Block:
    """Instructions of one block being added up, by candidate; each is issued by one warp."""

    def __init__(self, counted: Counted) -> None:
        self._counted, self._view, self._shape = counted, counted.view, counted.shape
        self._tuning, self._warp = counted.view.tuning, counted.view.spec.sms.warp
        self._banks = counted.view.spec.sms.shared.banks
        self._fma: Amount = 0.0
        self._arithmetic: Amount = 0.0
        self._special: Amount = 0.0
        self._load: Amount = 0.0
        self._store: Amount = 0.0
        self._scalar: Amount = 0.0
        self._matrix: Amount = 0.0
        self._shared_bytes: Amount = 0.0
        self._further_passes: Amount = 0.0
        self._waits: Amount = 0.0
        self._share: Amount = 1.0
        """Share of the part's iterations that are computed."""
        self._chains: list[tuple[Amount, Amount]] = []
        """Time that products take to issue, with the number of sums that are accumulated at a time."""
        self._others: list[tuple[Amount, Amount]] = []
        """Issue time of parts without products, with the number of sums that are accumulated at a time."""

    def codes(self) -> list[BlockCode]:
        """Return them as whole numbers, by candidate."""
        layer, tile = self._counted.layer, self._shape.tile
        for part, cost in self._counted.costs.items():
            self._add(part, cost)
        self._take_lines()
        self._wait_for_copies()
        passes = by_row(lambda *tile: passes_of(layer, tile), *tile)
        further = whole(self._further_passes)
        chains = np.maximum(whole(_mean(self._chains or self._others) - _HALF), 1)
        columns = [self._counted.listed(each) for each in (
            whole(self._fma / passes), whole(self._arithmetic / passes), whole(self._special / passes),
            whole(self._load), whole(self._store), whole(self._scalar), whole(self._matrix), whole(self._waits),
            further, chains, self._shape.stages, self._per_cycle(), whole(self._shared_bytes),
        )]  # fmt: skip
        return [
            BlockCode(Issued(
                fma=fma, arithmetic=arithmetic, special=special, load=load, store=store, scalar=scalar, matrix=matrix,
                accumulators=accumulators, waits=waits, ahead=ahead, further_passes=conflicts,
                held_up=conflicts if self._tuning.as_generated else 0, per_cycle=per_cycle,
            ), moved)
            for fma, arithmetic, special, load, store, scalar, matrix, waits, conflicts, accumulators, ahead, per_cycle,
            moved in zip(*columns, strict=True)
        ]  # fmt: skip

    def _per_cycle(self) -> Amount:
        cycles = self._tuning.issue_cycles
        return -(-self._shape.threads // self._warp) / cycles if cycles else 0.0

    def _warps(self, executions: Size, threads: Size) -> Amount:
        """Return the instructions of warps of a block for so many executions of threads of the grid."""
        padding = -(-threads // self._warp) * self._warp / threads
        return executions * self._share / self._shape.blocks / self._warp * padding

    def _at_once(self, threads: Size) -> Amount:
        """Return how many warps of a block work at a time where so many threads have something to do."""
        return -(-least(threads, self._shape.threads) // self._warp)

    def _add(self, part: Part, cost: PartCost) -> None:
        stage, made = self._counted.stages[part[0]], cost.operations
        self._share = self._counted.share_computed(stage.name)
        if _is_staged(stage):
            self._add_copy(cost)
            return
        executions = sum([self._warps(each.executions, each.threads) for each in cost.statements])
        is_product = self._counted.is_product(part)
        sums = most_of([band.accumulators for band in cost.in_bands], 1)
        tensor = self._counted.tensor.get(part[0]) if is_product else None
        on_lanes = is_product and tensor is None
        dtype = operands_of(self._view.product or self._view.dtype)[0] if on_lanes else self._view.dtype
        pack = most(least(packed(dtype), sums), 1)
        if tensor is not None:
            matrix = tensor.instructions * self._share / self._shape.blocks
            self._matrix = self._matrix + matrix
            self._chains.append((matrix, self._at_once(tensor.warps * self._warp) * tensor.tiles))
            self._load_fragments(cost, tensor)
        else:
            self._fma = self._fma + executions * made.macs / pack
            own = self._chains if is_product else self._others
            own.append((executions, self._at_once(cost.statements[0].threads) * sums // pack))
        is_move = stage.kind == "map" and not (made.macs or made.simple or made.special) and _only_moves(stage)
        self._arithmetic = self._arithmetic + executions * (made.simple + is_move) / pack
        self._special = self._special + executions * made.special
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
            innermost: Size = 1
            for each in reversed(band.around):
                innermost = chosen(each > 1, each, innermost)
            branches = tuning.loop_instructions / least(tuning.unrolled, innermost)
            counted = self._warps(band.bands, band.threads) * branches
            self._scalar = self._scalar + np.where(innermost > 1, counted, 0.0)

    def _add_copy(self, cost: PartCost) -> None:
        """Add what brings operands to shared memory: neighbouring threads take neighbours, several at once each."""
        loads = [move for moved in cost.loads.values() for move in moved.moves]
        moves = [*loads, *[move for moved in cost.stores.values() for move in moved.moves]]
        patterns = [patterns_of(move, self._counted.rows) for move in moves]
        at_once = self._copied_at_once(moves[0].element_bytes, list(zip(*patterns, strict=True)))
        for move, own in zip(moves, patterns, strict=True):
            accesses = self._warps(move.registers, move.threads) / at_once
            is_load = move.use.scope != "shared"
            self._load = self._load + accesses * is_load
            self._store = self._store + accesses * (not is_load)
            self._scalar = self._scalar + accesses * self._tuning.address_instructions
            neighbours = np.array([
                aligned(count, *pattern.run_of_threads) for count, pattern in zip(at_once.tolist(), own, strict=True)
            ])  # fmt: skip
            access = self._accesses(move, own, neighbours, of_copy=True)
            single = accesses * at_once / neighbours
            if not is_load:
                self._shared_bytes = self._shared_bytes + single * access.size_bytes
                self._further_passes = self._further_passes + accesses * access.further_passes
            elif self._tuning.as_generated:
                self._further_passes = self._further_passes + single * access.further_lines

    def _copied_at_once(self, element_bytes: int, patterns: Sequence[Sequence[Pattern]]) -> NDArray[np.int64]:
        """Return how many neighbours an instruction of a thread copies: as both memories have them, if code does."""
        tuning = self._tuning
        limit = max(max(tuning.vector_bytes, tuning.copied_bytes) // element_bytes, 1)
        if tuning.vector_bytes >= tuning.copied_bytes:
            return np.full(len(patterns), limit)
        fewest = max(tuning.vector_bytes // element_bytes, 1)
        return np.array([
            max(min([aligned(limit, *pattern.run_of_threads) for pattern in both]), fewest) for both in patterns
        ])  # fmt: skip

    def _accesses(
        self, move: Move, patterns: Sequence[Pattern], neighbours: NDArray[np.int64], *, of_copy: bool = False
    ) -> "_Accesses":  # fmt: skip
        """Return what an access of a warp takes, each of whose threads takes so many neighbours at once."""
        found = [
            access_of(pattern, elements, move.element_bytes, self._warp, self._banks, of_copy)
            for pattern, elements in zip(patterns, neighbours.tolist(), strict=True)
        ]  # fmt: skip
        return _Accesses(*np.array(found, dtype=np.float64).T)

    def _load_one(self, stage: Stage, move: Move, *, is_operand: bool) -> None:
        if any(each.window > 1 for each, _ in move.use.place.derived):
            if not _is_line(stage, move):
                self._load_windows(move)
            return
        loads = self._moved(move, is_operand=is_operand)
        self._load = self._load + loads.accesses
        if move.use.scope != "shared":
            addresses = 0 if is_operand else self._tuning.address_instructions
            self._scalar = self._scalar + loads.accesses * addresses
            busy = least(move.threads, self._shape.threads)
            each = move.registers * self._share / loads.at_once / self._shape.blocks / busy
            self._waits = self._waits + each / self._tuning.loads_ahead

    def _load_windows(self, move: Move) -> None:
        """Add loads of neighbours that results need together, as a search needs a row: all threads take part in them.

        Each such window is taken once in a block.
        """
        size = math.prod([each.window for each, _ in move.use.place.derived])
        moving = [loop for loop in move.loops if loop.kind != "block" and loop.name in move.use.place.moving]
        elements = size * math.prod([loop.extent for loop in moving], start=1)
        at_once = max(min(self._tuning.vector_bytes // move.element_bytes, size), 1)
        loads = elements / at_once / self._warp
        self._load = self._load + loads
        self._shared_bytes = self._shared_bytes + elements * move.element_bytes
        self._scalar = self._scalar + loads * self._tuning.address_instructions
        if move.use.scope != "shared":
            threads = -(-self._shape.threads // self._warp) * self._warp
            self._waits = self._waits + elements / at_once / threads / self._tuning.loads_ahead

    def _load_fragments(self, cost: PartCost, tensor: TensorWork) -> None:
        """Add loads of operands of tensor units: a second one may be shared by several warps."""
        units = self._view.tensor
        assert units is not None
        shared_by: Size = 1
        for moved in cost.loads.values():
            if moved.moves:
                size_bytes = sum([move.registers * move.element_bytes for move in moved.moves])
                of_block = size_bytes * self._share / (self._shape.blocks * shared_by)
                self._shared_bytes = self._shared_bytes + of_block
                self._load = self._load + of_block / self._tuning.vector_bytes / self._warp
                shared_by = least(units.warps, tensor.warps)

    def _store_one(self, move: Move) -> None:
        is_shared = move.use.scope == "shared"
        stores = self._moved(move, is_operand=False, is_counted=is_shared).accesses
        self._store = self._store + stores
        self._scalar = self._scalar + stores * self._tuning.address_instructions

    def _moved(self, move: Move, *, is_operand: bool, is_counted: bool = True) -> "_Moved":
        """Add what accesses of warps move, and the further passes that they take; return how many there are."""
        patterns = patterns_of(move, self._counted.rows)
        together = np.array([self._together(move, each, is_operand=is_operand) for each in patterns])
        accesses = self._warps(move.registers, move.threads) / together
        if is_counted:
            neighbours = np.array([
                pattern.neighbours(count) for pattern, count in zip(patterns, together.tolist(), strict=True)
            ])  # fmt: skip
            access, single = self._accesses(move, patterns, neighbours), accesses * together / neighbours
            self._shared_bytes = self._shared_bytes + single * access.size_bytes
            if move.use.scope == "shared":
                self._further_passes = self._further_passes + single * access.further_passes * is_operand
            elif self._tuning.as_generated:
                self._further_passes = self._further_passes + single * access.further_lines
        return _Moved(accesses, together)

    def _together(self, move: Move, pattern: Pattern, *, is_operand: bool) -> int:
        """Return how many elements one instruction of a thread moves."""
        limit = max(self._tuning.vector_bytes // move.element_bytes, 1)
        # Libraries lay copies out so that what a thread takes at a time lies together.
        run = max(pattern.elements, pattern.goes_on) if is_operand else pattern.run
        return max(1, min(limit, run))

    def _take_lines(self) -> None:
        """Add the loads of lines that are transformed, and what threads pass to each other in shared memory."""
        layer, tuning = self._counted.layer, self._tuning
        columns = [self._counted.listed(each) for each in (self._shape.threads, *self._shape.tile)]
        every = [(threads, lines_taken(layer, tuple(tile), threads)) for threads, *tile in zip(*columns, strict=True)]
        if not any(lines for _, lines in every):
            return
        rows = []
        for threads, lines in every:
            loads = [line.elements / line.at_once(tuning.vector_bytes) for line in lines]
            exchanged = sum([line.exchanged for line in lines]) / self._warp
            outside = sum([count for count, line in zip(loads, lines, strict=True) if line.is_outside])
            rows.append((
                sum(loads) / self._warp, exchanged,
                sum([(line.elements + 2 * line.exchanged) * line.element_bytes for line in lines]),
                outside / threads / tuning.loads_ahead,
            ))  # fmt: skip
        loaded, passed_on, moved_bytes, waits = np.array(rows).T
        self._load = self._load + loaded + passed_on
        self._store = self._store + passed_on
        self._scalar = self._scalar + loaded * tuning.address_instructions
        self._shared_bytes = self._shared_bytes + moved_bytes
        self._waits = self._waits + waits

    def _wait_for_copies(self) -> None:
        """Add the steps in which operands are staged, at the end of each of which the block waits."""
        steps: dict[str, Amount] = {}
        for placed in self._counted.placed:
            name = placed.statement.stage
            stage = self._counted.stages[name]
            if _is_staged(stage) and placed.statement.role == "store":
                around = [loop for loop in placed.around if loop.kind not in ("block", "thread", "unrolled")]
                times = math.prod([loop.extent for loop in around], start=1) * self._counted.share_computed(name)
                group = self._counted.program.buffer(name).inside
                steps[group] = np.maximum(steps.get(group, 0), times)
        self._waits = self._waits + sum(steps.values())


class _Accesses(NamedTuple):
    """Accesses of a warp, by candidate (`scheduler.gpu.cost.warps.Access`)."""

    size_bytes: NDArray[np.float64]
    further_passes: NDArray[np.float64]
    further_lines: NDArray[np.float64]


class _Moved(NamedTuple):
    """Accesses of all warps of a block, by candidate."""

    accesses: Amount
    at_once: NDArray[np.int64]
    """Elements that one of a thread moves."""


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


def _mean(found: Sequence[tuple[Amount, Amount]]) -> Amount:
    """Return how many sums are being added up at a time, in the mean over the time that waiting for them takes."""
    total = sum([each for each, _ in found])
    waiting = sum([each / np.maximum(chains, 1) for each, chains in found])
    return total / np.where(total > 0, waiting, 1.0)
