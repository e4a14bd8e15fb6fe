"""Instructions of a kernel on a CPU, by class, from the counts of its loop program.

What a compiler does of its own accord is modelled once: it computes scalar loops in vectors
(`kernels.cost.auto_vectors`) and writes out innermost loops of a few iterations (`kernels.cost.written_out`), and a few
iterations of longer ones (`CpuTuning.unrolled`); it loads narrow numbers that follow each other a register at a time,
and keeps them for instructions that multiply by one lane.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsascape.hw_models.cpu.core_kinds import VectorShape
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.scheduler.cpu.cost.split import parts_of_stages
from dsascape.scheduler.cpu.structure.widened import Conversion, conversions
from dsascape.scheduler.cpu.structure.windows import has_depth
from dsascape.scheduler.cpu.view import CodeView
from dsascape.scheduler.kernels.cost.auto_vectors import in_vectors
from dsascape.scheduler.kernels.cost.counted import BandCost, Move, PartCost
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.registers import part_costs
from dsascape.scheduler.kernels.cost.written_out import written_out
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.columns import Size, ceil_div, chosen, least, most
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import SUMS, Stage, reduction_loops
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.recurrences import elements_inside
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads.loopnest import Operations
from dsascape.workloads.spaced import executed_extents

Amount = Any
"""A number of instructions, or a column of them."""


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of a kernel, or of a part of it, and what they work on."""

    issued: Issued
    register_bytes: int
    """Moved between registers and the first cache."""
    operations: Operations


def codes_of_program(layer: Layer, program: LoopProgram, dtype: str, view: CodeView) -> tuple[Code, ...]:
    """Return the instructions of a loop program: of each of the kernel's parts, first to last."""
    return codes_of_reads(Reads(NaiveProgram(layer), program), dtype, view)


def codes_of_reads(reads: Reads, dtype: str, view: CodeView) -> tuple[Code, ...]:
    """Return `codes_of_program` of a program of which is known what it loads and stores."""
    layer, program = reads.naive.layer, reads.program
    vector, parts = view.simd.vector(dtype), parts_of_stages(layer, program)
    widened = conversions(layer, parts_of(layer) or (layer,))
    found = [Instructions(vector, view, widened) for _ in range(max(parts.values()) + 1)]
    compiled = written_out(in_vectors(reads, vector.lanes), view.tuning.written_out)
    costs = part_costs(compiled, view.simd.registers)
    for (name, role), cost in costs.items():
        found[parts[name]].add(cost, _kind_of(layer, program.stage(name), role, cost))
    chained = 0 if layer.contraction is not None else elements_inside(layer)
    if chained:
        found[-1].wait_for_each_other(chained, costs[layer.sink.name, "store"].executions)
    return tuple([each.code() for each in found])


@dataclass(frozen=True, slots=True)
class PartKind:
    """What instructions of a part depend on besides its counts."""

    is_product: bool = False
    sums_in_depth: bool = False
    """Whether products of several iterations may share an instruction that adds them up."""
    iterations: int = 1
    """Iterations of the stage's reduction; the last dot product may have fewer of them than the others."""
    is_requantised: bool = False
    """Whether it makes numbers of fewer bits of sums of integers."""
    is_fold: bool = False
    """Whether it adds partial sums to each other."""


def _kind_of(layer: Layer, stage: Stage, role: str, cost: PartCost) -> PartKind:
    if stage.kind == "sum":
        nest, is_product = stage.nests[0], bool(stage.nests[0].per_iteration.macs) and role == "update"
        if role == "fold":
            return PartKind(is_fold=True)
        long = [loop for loop in reduction_loops(nest) if nest.loops[loop].extent > 1]
        executed = executed_extents(nest)
        return PartKind(is_product, is_product and has_depth(nest, long), math.prod([executed[loop] for loop in long]))
    products = {compiled.nest.write.tensor + SUMS for compiled in layer.nests if compiled.nest.per_iteration.macs}
    is_narrow = layer.described(stage.tensor).element_bytes < _HALF_BYTES
    return PartKind(is_requantised=is_narrow and not products.isdisjoint(cost.loads))


_AS_IT_IS = Conversion(0, 0)
_HALF_BYTES = 2
"""Bytes of the narrowest numbers that sums are rounded to without a scale."""
_REQUANTISATION = 3
"""Instructions that make narrow results of a vector of sums: a multiplication, a shift that rounds, a narrowing."""


class Instructions:
    """Instructions being added up: numbers, or columns of them."""

    def __init__(self, vector: VectorShape, view: CodeView, widened: Mapping[str, Conversion]) -> None:
        self._vector, self._view, self._widened = vector, view, widened
        self.fma: Amount = 0.0
        self.arithmetic: Amount = 0.0
        self.special: Amount = 0.0
        self.load: Amount = 0.0
        self.store: Amount = 0.0
        self.scalar: Amount = 0.0
        self.loops: Amount = 0.0
        self.register_bytes: Amount = 0.0
        self.accumulators: Size = 1
        self.macs: Amount = 0
        self.simple: Amount = 0
        self.special_functions: Amount = 0
        self._spared: dict[str, Amount] = {}

    def add(self, cost: PartCost, kind: PartKind) -> None:
        """Add those of one part of a program."""
        vector, made = self._vector, cost.operations
        self.macs += made.macs * cost.needed
        self.simple += made.simple * cost.needed
        self.special_functions += made.special * cost.needed
        depth = vector.depth if kind.sums_in_depth else 1
        deep = kind.iterations / -(-kind.iterations // depth)  # iterations that an instruction has in the mean
        products = made.macs * (vector.instructions if kind.sums_in_depth else 1.0) / deep
        simple = made.simple + _REQUANTISATION * kind.is_requantised
        self.fma += cost.executions * products
        self.arithmetic += cost.executions * simple
        self.special += cost.executions * made.special
        lane_bytes = self._view.simd.register_bytes / vector.lanes
        for lanes, _, executions in cost.statements:
            self._spare("fma", executions * products, lanes * lane_bytes)
            self._spare("arithmetic", executions * simple, lanes * lane_bytes)
            self._spare("special", executions * made.special, lanes * lane_bytes)
        if kind.is_fold and not any(array.moves for array in cost.loads.values()):
            self._move_halves(cost)
        used: Amount = cost.elements / most(cost.executions, 1) * lane_bytes
        for name, array in cost.loads.items():
            widened = self._widened.get(name, _AS_IT_IS)
            self.arithmetic -= cost.executions * widened.of_all
            for move in array.moves:
                loads, size = self._moves(move, *((depth, deep) if move.moves_with_depth else (1, 1.0)))
                self.load += loads
                self.register_bytes += loads * size
                converted = loads * (move.is_gathered and vector.lanes > 1)
                if vector.converts:
                    converted = converted + loads * ceil_div(size // move.element_bytes, vector.lanes)
                self.arithmetic += converted + move.registers * widened.arithmetic
                filled = size if move.is_gathered else most(used, size)  # one element may fill a vector
                self._spare("load", loads, filled)
                self._spare("arithmetic", converted, filled)
        for array in cost.stores.values():
            for move in array.moves:
                stores, size = self._moves(move, 1, 1.0)
                self.store += stores
                self.register_bytes += stores * size
                self._spare("store", stores, size)
                self.arithmetic += move.registers * vector.converts
        self.load += cost.spills
        self.store += cost.spills
        self.register_bytes += 2 * cost.spills * self._view.simd.register_bytes
        for band in cost.in_bands:
            self._add_loops(band, depth, is_product=kind.is_product)

    def _move_halves(self, cost: PartCost) -> None:
        """Add what moves one half of a vector of partial sums beside the other, to which it is added."""
        vector = self._vector
        for lanes, _, executions in cost.statements:
            moved = executions * chosen(lanes < vector.lanes, 1, 0)
            self.arithmetic += moved
            self._spare("arithmetic", moved, lanes * self._view.simd.register_bytes / vector.lanes)

    def _spare(self, name: str, number: Amount, size_bytes: Amount) -> None:
        """Take note of what instructions on so many bytes of a register take less than those on a whole one."""
        simd = self._view.simd
        if simd.path_bytes is not None:
            taken = least(most(size_bytes, simd.path_bytes), simd.register_bytes) / simd.register_bytes
            self._spared[name] = self._spared.get(name, 0.0) + number * (1 - taken)

    def _add_loops(self, band: BandCost, depth: int, *, is_product: bool) -> None:
        """Add what the loops around bands issue, the innermost of which compilers write out."""
        tuning = self._view.tuning
        whole = self._whole(band.around)
        loops = list(zip(whole, band.around, strict=True))
        written_out = math.prod([chosen(each, extent, 1) for each, extent in loops], start=1)
        iterations: Amount = band.bands / written_out / depth
        left: Size = 1  # iterations of the loop that is there
        for is_written_out, extent in reversed(loops):
            left = chosen(is_written_out, left, extent)
        between = least(left, most(tuning.unrolled // written_out, 1))
        self.scalar += iterations * chosen(left > 1, 1, 0) * tuning.loop_instructions / between
        if is_product:
            self.accumulators = most(self.accumulators, band.accumulators)
            entries: Amount = band.bands / written_out / left
            self.scalar += entries * tuning.tile_instructions
            self.loops += entries * chosen(left * written_out > tuning.unrolled_whole * depth, 1, 0)

    def _whole(self, around: Sequence[Size]) -> list[Any]:
        """Return which loops compilers write out whole, innermost first: as many as have a few iterations together."""
        found: list[Any] = []
        written_out: Size = 1
        for extent in around:
            written_out = written_out * extent
            found.append(written_out <= self._view.tuning.unrolled_whole)
        return found

    def _moves(self, move: Move, depth: int, deep: float) -> tuple[Amount, Amount]:
        """Return the instructions that load or store, and the bytes that each moves.

        Each is for ``depth`` iterations of a reduction at most, and for ``deep`` in the mean.
        """
        register, vector = self._view.simd.register_bytes, self._vector
        size = move.element_bytes
        if move.is_gathered:
            return move.registers / deep, size * depth
        single = move.lanes == 1
        in_register = register // size
        run = move.run
        for is_written_out, further in zip(self._whole(move.around), move.goes_on, strict=True):
            run = run * chosen(is_written_out, further, least(further, most(in_register // run, 1)))
        if self._view.simd.multiplies_by_lane or not single:
            # What follows each other is loaded together: for lanes, or because vectors of it do not fill a register.
            shared = run if single or vector.depth > depth else move.lanes
            together = ceil_div(shared * size, register) / (shared / move.lanes)
            return move.registers * together / (1.0 if single else deep), least(register, shared * size)
        return move.registers / deep, size * depth

    def wait_for_each_other(self, chained: int, executions: Size) -> None:
        """Let results need earlier ones, with so many elements between two of which one needs the other.

        Additions to earlier results are multiply-accumulates; what lies further back is read again from memory.
        """
        self.fma += executions
        self.arithmetic -= executions
        self._spared = {}  # one waits for the other's latency, in vectors of any length
        self.accumulators = most(1, chained // self._vector.lanes)
        if chained > 1:
            self.load += executions
            self.register_bytes += executions * self._view.simd.register_bytes

    def code(self) -> Code:
        """Return them as whole numbers, with what they compute of the network."""
        issued = Issued(
            fma=math.ceil(self.fma), arithmetic=math.ceil(self.arithmetic), special=math.ceil(self.special),
            load=math.ceil(self.load), store=math.ceil(self.store), scalar=math.ceil(self.scalar),
            accumulators=int(self.accumulators), loops=math.ceil(self.loops),
            spared=tuple([(name, int(number)) for name, number in self._spared.items() if number >= 1]),
        )  # fmt: skip
        return Code(issued, round(self.register_bytes), Operations(self.macs, self.simple, self.special_functions))
