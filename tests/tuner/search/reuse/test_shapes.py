"""Shapes of blocks and threads: Example 3 of ETO, every set in it; costs by hand and by brute force."""

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from dsascape.tuner.search.reuse.hierarchical import (
    Features,
    Hierarchical,
    block_counts,
    expected_trials,
    load_shapes,
    thread_counts,
)
from dsascape.tuner.search.reuse.operators import FeatureRatios
from dsascape.tuner.search.reuse.shapes import (
    BANKS,
    WARP,
    MajorNest,
    Shapes,
    best_block_shape,
    best_thread_shape,
    block_shapes,
    default_loads,
    factorisations,
    worst_conflict,
)
from tests.graphs import Net
from tests.tiers import examples


def pointwise(channels: int, image: int = 28, width: int = 128) -> MajorNest:
    net = Net()
    graph = net.graph(net.conv(net.input(1, channels, image, image), width, 1), dtype="fp32")
    return MajorNest(graph.ops[0].nests[0])


def product(rows: int, columns: int, depth: int) -> MajorNest:
    net = Net()
    return MajorNest(net.graph(net.dense(net.input(rows, depth), columns), dtype="fp32").ops[0].nests[0])


REUSED = Shapes((1, 32, 2, 28), (1, 1, 1, 1), (1, 4, 2, 1), (4, 1, 1))
"""The program of Fig. 2b, for 512 input channels."""
RATIOS = FeatureRatios(Fraction(2), Fraction(1, 2))
NEST = pointwise(256)
FOUND = Features.of(pointwise(512), REUSED)


def test_features_of_the_reused_program() -> None:
    """56 blocks of 224 threads; 128 x 2 x 28 elements of an image and 32 x 128 weights in a fetch."""
    assert (FOUND.blocks, FOUND.threads, FOUND.shared) == (56, 56 * 224, 56 * 11264)


def test_numbers_of_blocks_of_example_3() -> None:
    assert block_counts(NEST, FOUND, RATIOS) == (28, 32, 49, 56, 64, 98, 112)


def test_shapes_of_example_3_for_56_blocks() -> None:
    block = best_block_shape(NEST, 56)
    assert block == (1, 32, 2, 28)
    loads = default_loads(NEST, block, FOUND.shared / FOUND.blocks)
    assert loads == (2, 1, 1)
    threads = thread_counts(block, 56, FOUND, RATIOS)
    assert threads == (112, 128, 224)
    none = (1, 1, 1, 1)
    assert [best_thread_shape(NEST, block, each, loads) for each in threads] == [
        (none, (1, 4, 2, 2)), (none, (1, 2, 1, 7)), (none, (1, 4, 2, 1)),
    ]  # fmt: skip
    assert set(load_shapes(NEST, block, 56, FOUND, RATIOS, Hierarchical(NEST, FOUND, RATIOS).space)) == {
        (4, 1, 1), (2, 1, 1),
    }  # fmt: skip


def test_rounds_of_example_3_for_56_blocks() -> None:
    """Three programs in the first round; the fastest of them with four fetches in the second."""
    search = Hierarchical(NEST, FOUND, RATIOS)
    first = list(search.first_round(56))
    assert [each.thread for each in first] == [(1, 4, 2, 2), (1, 2, 1, 7), (1, 4, 2, 1)]
    assert [each.loads for each in search.second_round(first[2], 56)] == [(4, 1, 1)]


def test_the_search_measures_each_program_once_and_keeps_the_fastest() -> None:
    """Time is made up: nearer to one thread shape the faster. No more programs than O(d1 (d2 + d3))."""
    asked: list[Shapes] = []

    def fastest(programs: Sequence[Shapes]) -> Shapes | None:
        asked.extend([each for each in programs if each not in asked])
        return min(programs, key=lambda each: abs(each.threads - 200) + sum(each.loads), default=None)

    best = Hierarchical(NEST, FOUND, RATIOS).search(lambda shapes: shapes, fastest)
    assert best is not None
    assert best == min(asked, key=lambda each: abs(each.threads - 200) + sum(each.loads))
    blocks = block_counts(NEST, FOUND, RATIOS)
    assert len(asked) <= sum([
        len(list(Hierarchical(NEST, FOUND, RATIOS).first_round(each))) + 9 for each in blocks
    ])  # fmt: skip


def test_later_rounds_start_from_the_best_so_far() -> None:
    def fastest(programs: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        return min(programs, default=None)

    best = Hierarchical(NEST, FOUND, RATIOS).search(
        lambda shapes: (1000 - shapes.threads, 0), fastest, [lambda program: [(program[0], -1)]]
    )
    assert best is not None
    assert best[1] == -1


def test_a_value_beyond_a_bound_is_taken_if_it_is_nearer() -> None:
    """Rows 7 x columns 1: divisors 1 and 7. Of an interval from 2 to 6, both ends are beyond."""
    nest = product(7, 1, 8)
    assert block_counts(nest, Features(4, 4, 4), FeatureRatios(Fraction(1, 2), Fraction(3, 2))) == (1, 7)
    assert block_counts(nest, Features(1, 1, 1), FeatureRatios(Fraction(1), Fraction(6))) == (1, 7)
    assert block_counts(nest, Features(1, 1, 1), FeatureRatios(Fraction(1), Fraction(2))) == (1,)


def test_lines_of_a_block_by_hand() -> None:
    """A block of 8 x 8 of a product of depth 16: 8 whole rows of 64 bytes, and 16 rows of 32 bytes of 24 columns."""
    nest = product(16, 24, 16)
    assert nest.requests((8, 8)) == 8 * 2 + 16 * 1
    assert nest.requests((16, 24)) == 16 * 2 + 16 * 3
    assert nest.requests((8, 4)) == 8 * 2 + 16 * 1


@pytest.mark.parametrize("seed", range(examples(24)))
def test_lines_are_those_that_the_elements_of_the_first_block_lie_in(seed: int) -> None:
    """By brute force, element by element; lines that two rows have parts of are requested twice."""
    rng = random.Random(seed)
    rows, columns, depth = [rng.randint(1, 24) for _ in range(3)]
    nest, block = product(rows, columns, depth), (rng.randint(1, rows), rng.randint(1, columns))
    left = [[(row * depth + k) // 8 for k in range(depth)] for row in range(block[0])]
    right = [[(k * columns + column) // 8 for column in range(block[1])] for k in range(depth)]
    counted = 0
    for lines, is_whole in ((left, True), (right, block[1] == columns)):
        runs = [[each for line in lines for each in line]] if is_whole else lines
        counted += sum([len(set(run)) for run in runs])
    assert nest.requests(block) == counted


@pytest.mark.parametrize("seed", range(examples(24)))
def test_the_worst_conflict_is_that_of_some_warp(seed: int) -> None:
    rng = random.Random(seed)
    moves = tuple([(rng.randint(1, 9), rng.choice([0, 1, 2, 3, 8, 16, 32, 33, 64])) for _ in range(rng.randint(1, 3))])
    addresses = [
        sum([place * stride for place, (_, stride) in zip(each, moves, strict=True)])
        for each in itertools.product(*[range(extent) for extent, _ in moves])
    ]
    worst = 1
    for begin in range(0, len(addresses), WARP):
        banks: dict[int, set[int]] = {}
        for address in addresses[begin : begin + WARP]:
            banks.setdefault(address % BANKS, set()).add(address)
        worst = max(worst, *[len(words) for words in banks.values()])
    assert worst_conflict(moves, 4) == worst


def test_neighbours_of_32_words_share_a_bank_and_neighbours_of_33_do_not() -> None:
    assert [worst_conflict(((32, stride),), 4) for stride in (0, 1, 2, 32, 33)] == [1, 1, 2, 32, 1]


def test_all_shapes_of_blocks_are_looked_at() -> None:
    nest = product(12, 8, 4)
    for blocks in (1, 4, 6, 96):
        every = [(12 // a, 8 // b) for a in (1, 2, 3, 4, 6, 12) for b in (1, 2, 4, 8) if a * b == blocks]
        assert sorted(block_shapes(nest, blocks)) == sorted(every)
        assert nest.requests(best_block_shape(nest, blocks)) == min(map(nest.requests, every))
    assert all(math.prod(each) == 12 for each in factorisations(12, (6, 4, 8)))


def test_expected_trials_are_the_same_for_the_same_seed_and_grow_with_the_interval() -> None:
    one = [expected_trials(NEST, pointwise(512), RATIOS, random.Random(3)) for _ in range(2)]
    wide = expected_trials(NEST, pointwise(4096), FeatureRatios(Fraction(16), Fraction(1, 16)), random.Random(3))
    assert one[0] == one[1] > 0
    assert wide > one[0]
