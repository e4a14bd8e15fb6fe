"""Algorithm 1 of ETO on a CPU: portions for the parallel loop, register tiles, and blocks that caches hold.

Relation (1) holds for portions as it does for thread blocks; of the numbers within it those are tried that fill the
cores best. Sums in registers, and working sets, are limited by the machine, which is the same for both operators; so
they are looked for from those of the reused program to r2 times as many (relations 2 and 3), as far as registers and
caches go. Shapes come from outside to inside: the portion with the fewest requests for lines, in it for each number of
sums the register tile with the fewest loads, around it the blocks whose working sets are nearest to the reused ones.
"""

import itertools
import math
import random
from collections.abc import Iterator, Sequence

from dsascape.scheduler.parts import divisors
from dsascape.tuner.search.reuse.loop_shapes import LoopFeatures, LoopNestShapes, LoopShapes
from dsascape.tuner.search.reuse.operators import FeatureRatios
from dsascape.tuner.search.reuse.rounds import SAMPLES, Rounds, scaled, within
from dsascape.workloads.loopnest import Extents

SPLITS, REGISTERS, BLOCKS = 3, 3, 3
"""Numbers of portions, numbers of sums for each, and further blocks for each that are tried at most: nearest first."""
_NEARLY = 0.95
"""Part of the best balance over cores from which on a number of portions is tried."""


class LoopRounds(Rounds[LoopShapes]):
    """Rounds of one reuse pair on a CPU."""

    def __init__(self, nest: LoopNestShapes, reused: LoopFeatures, ratios: FeatureRatios, *, is_held: bool) -> None:
        """``is_held``: whether registers hold sums over the whole reduction, as in the reused program."""
        self.nest, self.reused, self.ratios, self.is_held = nest, reused, ratios, is_held

    def splits(self) -> tuple[int, ...]:
        """Return the numbers of portions to try: nearest to the middle of relation (1), of those that fill the cores.

        A number is left out where its portions cut vectors.
        """
        balance = self.nest.facts.balance
        low, high = scaled(self.reused.portions, self.ratios.blocks)
        every = [each for each in divisors(math.prod(self.nest.nest.space)) if self.nest.can_split(each)]
        known = within(every, (low, high))
        most = max(map(balance, known), default=0.0)
        middle = math.log(low * high) / 2
        near = sorted(
            [each for each in known if balance(each) >= _NEARLY * most],
            key=lambda each: (abs(math.log(each) - middle), each),
        )  # fmt: skip
        return tuple(near[:SPLITS])

    def first_round(self, parts: int) -> Iterator[LoopShapes]:
        """Yield the shapes of the first measurements for a number of portions: one for each number of sums."""
        portion = self.nest.best_portion(parts)
        if portion is None:
            return
        for register in self.register_tiles(portion):
            yield min(self._around(portion, register), key=self._rank)

    def register_tiles(self, portion: Extents) -> list[Extents]:
        """Return the register tiles to try in a portion: numbers of sums nearest to the reused program's first."""
        known = self.nest.registers(portion)
        wanted = math.log(self.reused.accumulators)
        counts = within(known, scaled(self.reused.accumulators, self.ratios.threads))
        near = sorted(counts, key=lambda sums: (abs(math.log(sums) - wanted), sums))
        return [known[sums] for sums in near[:REGISTERS]]

    def _around(self, portion: Extents, register: Extents) -> Iterator[LoopShapes]:
        return around(self.nest, portion, register, self.nest.orders(portion)[0], is_held=self.is_held)

    def second_round(self, best: LoopShapes, parts: int) -> Iterator[LoopShapes]:
        """Yield the shapes of the second measurements: the best so far in other blocks, within relation (3)."""
        del parts
        every = self._around(best.portion, best.register)
        others = [shapes for shapes in every if shapes != best and self._is_near(shapes)]
        yield from sorted(others, key=self._rank)[:BLOCKS]

    def _rank(self, shapes: LoopShapes) -> tuple[float, Extents, Extents, int]:
        """Return how far working sets are from those of the reused program, in doublings; then the shape itself."""
        own = self.nest.features(shapes).working_sets
        doublings = sum([
            abs(math.log2(max(size, 1) / max(wanted, 1)))
            for size, wanted in zip(own, self.reused.working_sets, strict=True)
        ])  # fmt: skip
        return doublings, shapes.block, shapes.tile, shapes.step

    def _is_near(self, shapes: LoopShapes) -> bool:
        low, high = self.ratios.threads
        own = self.nest.features(shapes).working_sets
        return all(low * wanted <= size <= high * wanted
                   for size, wanted in zip(own, self.reused.working_sets, strict=True))  # fmt: skip

    def expected_trials(self, later: int) -> int:
        """Return how many programs are tried; ``later``: those of further rounds, for each number of portions.

        Blocks within relation (3) are those around the first register tile.
        """
        total = 0
        for parts in self.splits():
            portion = self.nest.best_portion(parts)
            registers = [] if portion is None else self.register_tiles(portion)
            if portion is not None and registers:
                near = filter(self._is_near, self._around(portion, registers[0]))
                blocks = sum([1 for _ in itertools.islice(near, BLOCKS + 1)])
                total += len(registers) + max(blocks - 1, 0) + later
        return total


def around(
    nest: LoopNestShapes, portion: Extents, register: Extents, order: tuple[int, ...], *, is_held: bool
) -> Iterator[LoopShapes]:
    """Yield shapes with a portion and a register tile, of whose blocks one dimension is cut at most."""
    longest = nest.longest
    if is_held:
        for block in _cut(portion, register, serial_dims(nest.nest.space, portion, order)):
            yield LoopShapes(portion, order, block, register, longest, register)
        return
    tiles = [tile for tile in _cut(portion, register, range(len(portion))) if tile != register]
    for tile in tiles:
        for step in divisors(longest):
            yield LoopShapes(portion, order, portion, tile, step, register)
    if not tiles:
        yield LoopShapes(portion, order, portion, register, longest, register)


def serial_dims(space: Extents, portion: Extents, order: Sequence[int]) -> Sequence[int]:
    """Return the dimensions behind the last one that portions cut: no loop over these is split over threads."""
    last = max([place for place, dim in enumerate(order) if portion[dim] < space[dim]], default=-1)
    return order[last + 1 :]


def _cut(whole: Extents, part: Extents, dims: Sequence[int]) -> Iterator[Extents]:
    """Yield a box, and it with one of some dimensions cut into multiples of a part."""
    yield whole
    for dim in dims:
        for size in divisors(whole[dim]):
            if size < whole[dim] and size % part[dim] == 0:
                yield (*whole[:dim], size, *whole[dim + 1 :])


def drawn_features(nest: LoopNestShapes, rng: random.Random, *, is_held: bool) -> LoopFeatures | None:
    """Return the features of a program of an operator, drawn; None where the draw cuts vectors."""
    portions = rng.choice([each for each in divisors(math.prod(nest.nest.space)) if nest.can_split(each)])
    portion = nest.best_portion(portions)
    if portion is None:
        return None
    register = rng.choice(sorted(nest.registers(portion).values()))
    return nest.features(rng.choice(list(around(nest, portion, register, nest.nest.order, is_held=is_held))))


def expected_trials(
    nest: LoopNestShapes, other: LoopNestShapes, ratios: FeatureRatios, rng: random.Random, later: int
) -> float:
    """Return how many programs Algorithm 1 measures in the mean if the reused program may be any (ETO, section 6.1).

    Programs of the reused operator, ``other``, are drawn; ``later``: programs of further rounds.
    """
    totals = []
    for _ in range(SAMPLES):
        is_held = rng.random() < _HALF
        drawn = drawn_features(other, rng, is_held=is_held)
        if drawn is not None:
            totals.append(LoopRounds(nest, drawn, ratios, is_held=is_held).expected_trials(later))
    return sum(totals) / len(totals) if totals else 1.0


_HALF = 0.5
