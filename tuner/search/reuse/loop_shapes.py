"""Shapes of a tiled operator on a CPU, what they cost, and the features of a program that a reuse depends on.

Threads take iterations of the parallel loop in contiguous runs; an iteration computes a portion of the result, in
blocks that caches hold, these in register tiles. What decides how fast that is, and so what a reuse keeps, is

- *how many portions* there are: a core waits for the slowest, so that 21 portions on 20 cores take twice the time of
  20; and every portion fetches its operands anew, so that many small ones move more lines into private caches;
- *the working set at each level of the loops*, against the caches: what a level's loops go through again comes from
  the innermost cache that holds all of it, at that cache's bytes per cycle. The largest level that a cache holds says
  how a program uses it;
- *the register tile*: rows x vectors of sums. Each multiply-accumulate of the tile shares its loads with a row and a
  column of others; products of one sum wait for each other, so that a core with two pipes of four cycles needs eight
  sums to be busy; sums and operands beyond the architectural registers are spilled, a load and a store for each;
- *vectors*: their lanes, and the dimension that they lie along, which says what is loaded as a vector, what is
  broadcast, and what is gathered element by element.

These are costs of the machine model (`scheduler.cpu.cost`: chunks, lines that caches pass on, instructions and spilled
registers) as well as of real cores.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.parts import divisors
from dsascape.tuner.search.reuse.read_loops import TiledLoops
from dsascape.tuner.search.reuse.shapes import MajorNest, block_shapes
from dsascape.workloads.loopnest import Access, Extents

_SUM_BYTES = 4
"""Bytes of a sum."""


@dataclass(frozen=True, slots=True)
class CoreFacts:
    """Figures of a machine that shapes are chosen by."""

    cores: int
    lanes: int
    """Elements of a vector."""
    registers: int
    """Vector registers."""
    caches: tuple[int, ...]
    """Bytes of each cache that one core has, innermost first: of a shared one its part."""

    @staticmethod
    def of(view: CpuView, lanes: int) -> "CoreFacts":
        """Return the figures of a machine's fastest cores."""
        cores = max(view.thread_counts)
        caches = [each.capacity_bytes * each.copies(cores) // cores for each in view.caches.values()]
        return CoreFacts(cores, lanes, view.spec.simd.registers, tuple(caches))

    def balance(self, portions: int) -> float:
        """Return the part of the cores' time that equal portions fill: 1 where all have the same number of them."""
        return portions / (self.cores * -(-portions // self.cores))


@dataclass(frozen=True, slots=True)
class LoopShapes:
    """Shapes of one program, from outside to inside: each divides the one before."""

    portion: Extents
    """Elements of each dimension of the result that one iteration of the parallel loop computes."""
    order: tuple[int, ...]
    """Dimensions as the outermost loops go through them: those that portions cut come first, and run in parallel."""
    block: Extents
    """Elements of each dimension that the outermost level of tiles covers."""
    tile: Extents
    """Elements whose sums go through one step of the reduction, before the next step begins."""
    step: int
    """Iterations of the longest reduction loop in one step."""
    register: Extents
    """Elements of each dimension that are computed at once."""

    @property
    def is_held(self) -> bool:
        """Whether registers hold sums from the first iteration of the reduction to the last."""
        return self.tile == self.register


@dataclass(frozen=True, slots=True)
class LoopFeatures:
    """Features of a program on a CPU."""

    portions: int
    """Iterations of the parallel loop."""
    accumulators: int
    """Vectors of sums in a register tile."""
    working_sets: tuple[int, ...]
    """By cache, innermost first: bytes of the largest level of the loops that the cache holds; 0: it holds none."""


class LoopNestShapes:
    """A major loop nest on a CPU: features of its programs, and the best shapes for given ones."""

    def __init__(self, nest: MajorNest, depth: int, facts: CoreFacts, vector_dim: int, panels: frozenset[str]) -> None:
        """Take the place of the longest reduction loop, the dimension of vectors, and weights that lie in panels."""
        self.nest, self.depth, self.facts, self.vector_dim, self.panels = nest, depth, facts, vector_dim, panels
        self._portions: dict[int, Extents | None] = {}
        self._registers: dict[Extents, dict[int, Extents]] = {}
        self._orders: dict[Extents, list[tuple[int, ...]]] = {}
        self._working_sets: dict[tuple[Extents, int], int] = {}

    @property
    def longest(self) -> int:
        """Iterations of the longest reduction loop."""
        return self.nest.reduction[self.depth] if self.nest.reduction else 1

    def working_set(self, box: Extents, step: int) -> int:
        """Return the bytes of operands, and of sums, of a box of the result for a step of the reduction."""
        if (box, step) not in self._working_sets:
            self._working_sets[box, step] = self._working_set(box, step)
        return self._working_sets[box, step]

    def _working_set(self, box: Extents, step: int) -> int:
        fetch = [step if place == self.depth else size for place, size in enumerate(self.nest.reduction)]
        elements = sum([math.prod(self.nest.operand(read, box, fetch)) for read in self.nest.inputs])
        return elements * self.nest.element_bytes + math.prod(box) * _SUM_BYTES

    def held_by_caches(self, levels: Sequence[tuple[Extents, int]]) -> tuple[int, ...]:
        """Return the largest working set that each cache holds, of boxes and steps of all levels."""
        sizes = {self.working_set(box, step) for box, step in levels}
        return tuple([max([size for size in sizes if size <= most], default=0) for most in self.facts.caches])

    def features_of_loops(self, tiled: TiledLoops) -> LoopFeatures:
        """Return the features of a program, of the loops that the machine model sees."""
        covered, step, portions = list(self.nest.space), self.longest, 1
        levels: list[tuple[Extents, int]] = []
        for place, (axis, inside) in enumerate(tiled.loops):
            if axis < 0:
                step = min(inside, step)
            else:
                if place < tiled.parallel:
                    portions *= -(-covered[axis] // inside)
                covered[axis] = min(inside, covered[axis])
            if place + 1 >= tiled.parallel:
                levels.append((tuple(covered), step))
        levels.append((tuple(map(min, tiled.register, self.nest.space)), step))
        sums = math.prod(tiled.register) // tiled.lanes(self.facts.lanes)
        return LoopFeatures(portions, sums, self.held_by_caches(levels))

    def features(self, shapes: LoopShapes) -> LoopFeatures:
        """Return the features of a program with these shapes."""
        portions = math.prod([size // own for size, own in zip(self.nest.space, shapes.portion, strict=True)])
        levels = [
            (shapes.portion, self.longest), (shapes.block, self.longest), (shapes.tile, shapes.step),
            (shapes.register, shapes.step),
        ]  # fmt: skip
        return LoopFeatures(portions, self.accumulators(shapes.register), self.held_by_caches(levels))

    def lanes(self, register: Extents) -> int:
        """Return the lanes of a register tile's vectors."""
        return 1 if self.vector_dim < 0 else dividing(register[self.vector_dim], self.facts.lanes)

    def accumulators(self, register: Extents) -> int:
        """Return the vectors of sums of a register tile."""
        return math.prod(register) // self.lanes(register)

    def can_split(self, portions: int) -> bool:
        """Whether so many portions need not cut the result's vectors."""
        dim, lanes = self.vector_dim, self.facts.lanes
        whole = math.prod(self.nest.space)
        return dim < 0 or self.nest.space[dim] % lanes > 0 or (whole // lanes) % portions == 0

    def best_portion(self, portions: int) -> Extents | None:
        """Return the shape of so many portions for which fewest lines are requested; None where there is none.

        Portions have whole vectors where the result has.
        """
        if portions not in self._portions:
            shapes = [each for each in block_shapes(self.nest, portions) if self._has_vectors(each)]
            self._portions[portions] = min(shapes, key=self.nest.requests, default=None)
        return self._portions[portions]

    def orders(self, portion: Extents) -> list[tuple[int, ...]]:
        """Return the orders of the loops over portions, that with the fewest requests for lines first.

        A core takes neighbouring portions. Those that differ along the last dimensions have operands in common that
        these do not move; they stay in its caches. Requests are those of the first core's run. Equal ones are told
        apart by how the result lies in memory.
        """
        if portion not in self._orders:
            self._orders[portion] = self._orders_of(portion)
        return self._orders[portion]

    def _orders_of(self, portion: Extents) -> list[tuple[int, ...]]:
        cut = [dim for dim in self.nest.order if portion[dim] < self.nest.space[dim]]
        rest = [dim for dim in self.nest.order if dim not in cut]
        found = [(*each, *rest) for each in itertools.permutations(cut)]
        return sorted(found, key=lambda order: self.nest.requests(self.run(portion, order)))

    def run(self, portion: Extents, order: Sequence[int]) -> Extents:
        """Return the box of the portions that one core takes: neighbours along the last dimensions first."""
        counts = [whole // own for whole, own in zip(self.nest.space, portion, strict=True)]
        left, box = -(-math.prod(counts) // self.facts.cores), list(portion)
        for dim in reversed(order):
            taken = min(counts[dim], left)
            box[dim] *= taken
            left = -(-left // taken)
        return tuple(box)

    def _has_vectors(self, box: Extents) -> bool:
        dim, lanes = self.vector_dim, self.facts.lanes
        return dim < 0 or self.nest.space[dim] % lanes > 0 or box[dim] % lanes == 0

    def registers(self, portion: Extents) -> dict[int, Extents]:
        """Return by number of sums the register tile that needs fewest loads, of all that registers hold."""
        if portion not in self._registers:
            self._registers[portion] = self._registers_of(portion)
        return self._registers[portion]

    def _registers_of(self, portion: Extents) -> dict[int, Extents]:
        dim, found = self.vector_dim, dict[int, tuple[float, Extents]]()
        lanes = 1 if dim < 0 else dividing(portion[dim], self.facts.lanes)
        most = self.facts.registers
        inside = self.nest.order[self.nest.order.index(dim) + 1 :] if dim >= 0 else ()
        sizes = [
            [each for each in divisors(size) if each % lanes == 0 and each <= most * lanes] if place == dim
            else [1] if place in inside else [each for each in divisors(size) if each <= most]
            for place, size in enumerate(portion)
        ]  # fmt: skip
        for register in itertools.product(*sizes):
            sums = math.prod(register) // lanes
            if sums < most and sums + self._vectors_of_operands(register, lanes) <= most:
                ranked = self.loads(register) / math.prod(register), tuple(register)
                found[sums] = min(found.get(sums, ranked), ranked)
        return {sums: register for sums, (_, register) in found.items()}

    def _vectors_of_operands(self, register: Sequence[int], lanes: int) -> int:
        """Return the registers of operands beside the sums: the vectors of a row, and one that is broadcast."""
        return 1 + (1 if self.vector_dim < 0 else register[self.vector_dim] // lanes)

    def loads(self, register: Sequence[int]) -> int:
        """Return the loads of a register tile for one iteration of the reduction.

        An operand that lies along the vectors is loaded in vectors; one that they do not move is loaded once for all
        lanes; elements that do not lie together are loaded one by one.
        """
        one = (1,) * len(self.nest.reduction)
        return sum([self._loads(read, register, one) for read in self.nest.inputs])

    def _loads(self, read: Access, register: Sequence[int], one: Sequence[int]) -> int:
        dim = self.vector_dim
        lanes = self.lanes(tuple(register))
        points = list(register)
        if dim >= 0:
            points[dim] //= lanes
        count = math.prod([
            size for place, size in enumerate(points) if self._moves(read, place)
        ])  # fmt: skip
        is_gathered = dim >= 0 and self._moves(read, dim) and not self._lies_along(read, dim)
        return count * (lanes if is_gathered else 1)

    def _moves(self, read: Access, dim: int) -> bool:
        loop = self.nest.space_loops[dim]
        return loop is not None and read.uses(loop)

    def _lies_along(self, read: Access, dim: int) -> bool:
        """Whether neighbours along a dimension of the result are neighbours in memory: or can be, of weights."""
        if read.tensor in self.panels:
            return True
        loop, order = self.nest.space_loops[dim], self.nest.order_of(read)
        index = read.indices[order[-1]] if order else None
        return index is not None and (loop, 1) in index.terms and index.divisor == 1
