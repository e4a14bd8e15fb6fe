"""Hierarchical search for a program of one operator, given a fast one of another (ETO, Algorithm 1).

For each number of blocks that the reused program's features leave: the best shape of a block; with it, for each number
of threads, the best shape of a thread; for the fastest of these, other fetches; then what else a program has.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from dsascape.scheduler.parts import divisors
from dsascape.tuner.search.reuse.operators import FeatureRatios
from dsascape.tuner.search.reuse.rounds import SAMPLES, Rounds, scaled, within
from dsascape.tuner.search.reuse.shapes import (
    MajorNest,
    Shapes,
    best_thread_shape,
    default_loads,
    loads_along_one,
)
from dsascape.workloads.loopnest import Extents

TOO_MANY_THREADS = 1024
"""Threads from which on a block is not tried (the authors' code)."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features of a program, of all blocks together (ETO, section 3)."""

    blocks: int
    """B."""
    threads: int
    """T."""
    shared: int
    """M: elements of operands in shared memory at a time; 0 where nothing is fetched there."""

    @staticmethod
    def of(nest: MajorNest, shapes: Shapes) -> "Features":
        """Return the features of a program with these shapes."""
        blocks = math.prod(nest.space) // math.prod(shapes.block)
        return Features(blocks, blocks * shapes.threads, blocks * nest.fetched(shapes.block, shapes.loads))


@dataclass(frozen=True, slots=True)
class SpaceOfShapes:
    """What a program of the machine can have of the shapes."""

    with_virtual: bool = True
    """Whether pieces of a thread can lie between those of others."""
    cut: tuple[int, ...] | None = None
    """Reduction loops, by place, that fetches can go along; None: all."""
    is_fetched: bool = True
    """Whether operands are fetched to shared memory: else there is one LShape."""


def block_counts(nest: MajorNest, reused: Features, ratios: FeatureRatios) -> tuple[int, ...]:
    """Return the numbers of blocks to try: divisors of the space within the interval of relation (1)."""
    return within(divisors(math.prod(nest.space)), scaled(reused.blocks, ratios.blocks))


def thread_counts(block: Extents, blocks: int, reused: Features, ratios: FeatureRatios) -> tuple[int, ...]:
    """Return the threads of a block to try: divisors of its elements within the interval of relation (2)."""
    low, high = scaled(reused.threads, ratios.threads)
    own = [each for each in divisors(math.prod(block)) if each < TOO_MANY_THREADS]
    return within(own, (low / blocks, high / blocks))


def load_shapes(
    nest: MajorNest, block: Extents, blocks: int, reused: Features, ratios: FeatureRatios, space: SpaceOfShapes
) -> tuple[Extents, ...]:
    """Return the fetches to try: those whose shared memory is within the interval of relation (3)."""
    low, high = scaled(reused.shared, ratios.threads)
    return tuple([
        loads for loads in loads_along_one(nest, space.cut) if low <= blocks * nest.fetched(block, loads) <= high
    ])  # fmt: skip


class Hierarchical(Rounds[Shapes]):
    """Algorithm 1 for one reuse pair on a GPU: parallel parts are thread blocks."""

    def __init__(
        self, nest: MajorNest, reused: Features, ratios: FeatureRatios, space: SpaceOfShapes | None = None
    ) -> None:
        self.nest, self.reused, self.ratios = nest, reused, ratios
        self.space = SpaceOfShapes() if space is None else space

    def splits(self) -> tuple[int, ...]:
        """Return the numbers of blocks to try."""
        return block_counts(self.nest, self.reused, self.ratios)

    def default(self, blocks: int) -> tuple[Extents, Extents]:
        """Return the shape of so many blocks, and the fetches that need about as much memory as the reused program."""
        block = self.nest.best_block(blocks)
        if not self.space.is_fetched:
            return block, (1,) * len(self.nest.reduction)
        wanted = self.reused.shared / self.reused.blocks
        return block, default_loads(self.nest, block, wanted, self.space.cut)

    def first_round(self, parts: int) -> Iterator[Shapes]:
        """Yield the shapes of the first measurements for a number of blocks: one for each number of threads."""
        block, loads = self.default(parts)
        for threads in thread_counts(block, parts, self.reused, self.ratios):
            found = best_thread_shape(self.nest, block, threads, loads, with_virtual=self.space.with_virtual)
            yield Shapes(block, *found, loads)

    def second_round(self, best: Shapes, parts: int) -> Iterator[Shapes]:
        """Yield the shapes of the second measurements: the best so far with other fetches."""
        if not self.space.is_fetched:
            return
        for loads in load_shapes(self.nest, best.block, parts, self.reused, self.ratios, self.space):
            if loads != best.loads:
                yield Shapes(best.block, best.virtual, best.thread, loads)


def expected_trials(
    nest: MajorNest, other: MajorNest, ratios: FeatureRatios, rng: random.Random,
    space: SpaceOfShapes | None = None, later: int = 0,
) -> float:  # fmt: skip
    """Return how many programs Algorithm 1 measures in the mean if the reused program may be any (ETO, section 6.1).

    Programs of the reused operator, ``other``, are drawn: divisors for blocks, threads and fetches. ``later``: programs
    of the rounds behind the second, for each number of blocks (4 pragmas and 4 vector lengths in the paper).
    """
    asked = SpaceOfShapes() if space is None else space
    totals = []
    for _ in range(SAMPLES):
        search = Hierarchical(nest, _drawn(other, rng, asked), ratios, asked)
        total = 0
        for blocks in block_counts(nest, search.reused, ratios):
            block, loads = search.default(blocks)
            threads = len(thread_counts(block, blocks, search.reused, ratios))
            fetches = load_shapes(nest, block, blocks, search.reused, ratios, asked) if asked.is_fetched else ()
            total += threads + (len([each for each in fetches if each != loads]) + later if threads else 0)
        totals.append(total)
    return sum(totals) / len(totals)


def _drawn(nest: MajorNest, rng: random.Random, space: SpaceOfShapes) -> Features:
    """Return the features of a program of an operator, drawn."""
    size = math.prod(nest.space)
    blocks = rng.choice(divisors(size))
    block = nest.best_block(blocks)
    threads = rng.choice([each for each in divisors(size // blocks) if each < TOO_MANY_THREADS])
    if not space.is_fetched:
        return Features(blocks, blocks * threads, 0)
    loads = rng.choice(list(loads_along_one(nest, space.cut)))
    return Features(blocks, blocks * threads, blocks * nest.fetched(block, loads))
