"""Programs drawn, mutated and crossed: all legal, and all drawn from the whole of what is valid."""

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Layout,
    Parallel,
    PartialSums,
    Steps,
    Tile,
    Unroll,
    UnrollReduction,
    without_sizes,
)
from dsascape.tuner.search.evolution import EvolutionOptions, evolved
from dsascape.tuner.search.genes import drawn_factors, factors_of, tile_groups
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.loop_mutations import location, parallel_granularity, pragma
from dsascape.tuner.search.mutations import Mutation, crossed, tile_size
from dsascape.tuner.search.options import LIMITED
from dsascape.tuner.search.settled import settled
from dsascape.tuner.search.space import Program, Space
from tests.tiers import examples
from tests.tuner.search import kernels
from tests.tuner.search.kernels import FOUR_CORES, SMALL

CAMPAIGN = ("matmul", "convolution", "softmax", "fused pair")
"""Kernels of which at night 10,000 programs are looked at: 500 drawn, each with three mutants and a child."""
KERNELS = pytest.mark.parametrize("naive", SMALL.values(), ids=SMALL.keys())
DRAWS = examples(25)


def drawn(space: Space, count: int, seed: int = 0) -> list[Program]:
    rng = random.Random(seed)
    return [space.draw(rng) for _ in range(count)]


def is_legal(space: Space, program: Program) -> bool:
    return not illegal(loop_program(space.naive, program.steps), space.machine.limits)


@pytest.mark.parametrize("name", SMALL)
def test_every_draw_mutant_and_child_is_legal(name: str) -> None:
    space, rng = CpuSpace(SMALL[name](), FOUR_CORES), random.Random(1)
    programs = drawn(space, examples(500, few=40) if name in CAMPAIGN else DRAWS)
    mutants = [space.mutated(program.steps, rng) for program in programs for _ in range(3)]
    children = [crossed(space, one.steps, other.steps, rng) for one, other in itertools.pairwise(programs)]
    found = [each for each in (*programs, *mutants, *children) if each is not None]
    assert all(is_legal(space, each) for each in found)
    assert sum([each is None for each in children]) < len(children) / 2


@KERNELS
def test_no_more_than_a_few_draws_are_thrown_away(naive: Callable[[], NaiveProgram]) -> None:
    space, rng = CpuSpace(naive(), FOUR_CORES), random.Random(2)
    found = [space.annotated(rng.choice(space.sketches).steps, rng) for _ in range(2 * DRAWS)]
    assert sum([each is None for each in found]) <= len(found) / 10


def test_same_seed_same_programs() -> None:
    assert drawn(CpuSpace(kernels.fused_pair(), FOUR_CORES), 5) == drawn(CpuSpace(kernels.fused_pair(), FOUR_CORES), 5)


_DRAWN = """
import random
from dsascape.tuner.search.kinds.cpu import CpuSpace
from tests.tuner.search.kernels import FOUR_CORES, SMALL
for naive in SMALL.values():
    space, rng = CpuSpace(naive(), FOUR_CORES), random.Random(0)
    print([space.draw(rng).steps for _ in range(5)])
"""


def test_same_seed_same_programs_in_other_processes() -> None:
    """Nothing depends on the order in which sets of names happen to lie."""
    found = {
        subprocess.run(
            [sys.executable, "-c", _DRAWN], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
            cwd=Path(__file__).parents[3],
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_every_sketch_is_drawn() -> None:
    space = CpuSpace(kernels.two_matmuls(), FOUR_CORES)
    structures = Counter([_structure(program.steps) for program in drawn(space, 200)])
    assert len(structures) == len(space.sketches) == 9


def _structure(steps: Steps) -> Steps:
    return tuple([step for step in without_sizes(steps) if isinstance(step, Tile)])


@pytest.mark.parametrize(
    ("extent", "levels", "most", "ways"),
    [(16, 4, 64, 35), (12, 3, 12, 18), (1, 3, 64, 1), (96, 2, 8, 6), (7, 1, 2, 1), (101, 3, 64, 2)],
)
def test_sizes_are_uniform_over_all_factorisations(extent: int, levels: int, most: int, ways: int) -> None:
    """Each way is drawn about as often as any other: 16 in four levels are 35 ways, 12 in three are 18."""
    rng = random.Random(0)
    counts = Counter([drawn_factors(rng, extent, levels, most) for _ in range(200 * ways)])
    assert len(counts) == ways
    assert max(counts.values()) < 2 * min(counts.values())
    assert set(counts) == {each for each in _products(extent, levels) if levels == 1 or each[-1] <= most}


def _products(extent: int, levels: int) -> list[tuple[int, ...]]:
    if levels == 1:
        return [(extent,)]
    return [
        (first, *rest)
        for first in range(1, extent + 1)
        if extent % first == 0
        for rest in _products(extent // first, levels - 1)
    ]


def test_a_mutated_tile_keeps_its_product() -> None:
    space, rng = CpuSpace(kernels.matmul_relu(64, 48, 32), FOUR_CORES), random.Random(3)
    for program in drawn(space, 20):
        mutant = tile_size(space, program.steps, rng)
        if mutant is None:
            continue
        own, other = [
            {
                axis: factors_of(steps, group.space, axis, extent, is_open=True)
                for group in tile_groups(steps)
                for axis, extent in enumerate(space.extents(steps, group))
            }
            for steps in (program.steps, mutant.steps)
        ]
        for axis, factors in own.items():
            product, changed = 1, 1
            for one, two in zip(factors, other[axis], strict=True):
                product, changed = product * one, changed * two
            assert product == changed


def test_each_mutation_changes_its_own_kind_of_step() -> None:
    space, rng = CpuSpace(kernels.convolution(16, 10, 32), FOUR_CORES), random.Random(4)
    kinds: dict[Mutation[Space], set[type]] = {
        tile_size: {Tile, ComputeAt, Unroll, UnrollReduction, Layout}, parallel_granularity: {Parallel},
    }  # fmt: skip
    for program in drawn(space, 20):
        for mutation, allowed in kinds.items():
            mutant = mutation(space, program.steps, rng)
            changed = set() if mutant is None else set(mutant.steps) ^ set(program.steps)
            assert {type(step) for step in changed} <= allowed


def test_a_copy_with_padding_moves_to_other_loops() -> None:
    space, rng = CpuSpace(kernels.convolution(), FOUR_CORES), random.Random(5)
    program = drawn(space, 1)[0]
    found = [location(space, program.steps, rng) for _ in range(40)]
    places = {
        (step.consumer, step.loops)
        for each in found
        if each is not None
        for step in each.steps
        if isinstance(step, ComputeAt) and step.stage.endswith(".copy")
    }
    assert len(places) > 3


def test_pragmas_change_unrolling_and_the_number_of_partial_sums() -> None:
    space, rng = CpuSpace(kernels.minimum(), FOUR_CORES), random.Random(6)
    program = next(each for each in drawn(space, 40) if any(isinstance(step, PartialSums) for step in each.steps))
    found = [pragma(space, program.steps, rng) for _ in range(30)]
    counts = {step.count for each in found if each for step in each.steps if isinstance(step, PartialSums)}
    assert len(counts) > 1


def test_a_child_has_the_steps_of_one_parent_for_each_node() -> None:
    """Two products that share nothing: each node's tiles are those of one parent, and some child has both parents'."""
    space, rng = CpuSpace(kernels.two_matmuls(), FOUR_CORES), random.Random(7)
    mixed = 0
    for one, other in zip(drawn(space, 30), drawn(space, 30, seed=1), strict=True):
        child = crossed(space, one.steps, other.steps, rng)
        if child is None:
            continue
        origins = set()
        for stage in ("matmul1.sum", "matmul2.sum"):
            own = {_levels(parent.steps, stage): number for number, parent in enumerate((one, other))}
            found = own.get(_levels(child.steps, stage))
            origins |= {found} if found is not None else set()
        mixed += len(origins) == 2
    assert mixed > 3


def _levels(steps: Steps, stage: str) -> tuple[object, ...]:
    return tuple([step for step in steps if step.stage == stage and isinstance(step, Tile)])


def test_weights_lie_in_panels_as_wide_as_the_innermost_level() -> None:
    space = CpuSpace(kernels.matmul(64, 64, 32), FOUR_CORES)
    panels = {
        (layout.panel, layout.order)
        for program in drawn(space, 30)
        for layout in program.loops.layouts
    }
    assert len({panel for panel, _ in panels}) > 2
    assert {order for _, order in panels} == {(0,)}


def test_a_limited_space_has_one_structure_and_no_layouts() -> None:
    space = CpuSpace(kernels.convolution(), FOUR_CORES, LIMITED)
    programs = drawn(space, 30)
    assert len(space.sketches) == 1
    assert len({_structure(program.steps) for program in programs}) == 1
    assert not any(program.loops.layouts for program in programs)
    assert {s.loops for p in programs for s in p.steps if isinstance(s, ComputeAt) and s.stage == "in1.copy"} == {4}


def test_evolution_finds_what_is_scored_higher_than_all_that_is_drawn() -> None:
    """A score that counts iterations of the innermost loops, which the search cannot know."""
    space = CpuSpace(kernels.matmul(64, 64, 64), FOUR_CORES)

    def scores(programs: Sequence[Program]) -> NDArray[np.float64]:
        return np.array([_score(program) for program in programs])

    options = EvolutionOptions(population=32, generations=4)
    best = evolved(space, scores, (), random.Random(0), options)[0]
    assert _score(best) > max([_score(each) for each in drawn(space, 32, seed=9)])


def _score(program: Program) -> float:
    tiles = [step for step in program.steps if isinstance(step, Tile)]
    return float(sum([min(size, 16) for tile in tiles for level in tile.levels for size in level.sizes or ()]))


def test_copies_are_made_of_what_is_padded_only() -> None:
    with_copies = {
        name: any(isinstance(step, CacheRead) for each in CpuSpace(naive(), FOUR_CORES).sketches for step in each.steps)
        for name, naive in SMALL.items()
    }
    assert [name for name, has in with_copies.items() if has] == ["convolution", "fused pair", "pair behind"]


def test_sums_that_lie_in_memory_between_steps_of_the_depth_have_weights_in_panels_too() -> None:
    naive = kernels.convolution(channels=64, image=10, width=32)
    layer = naive.layer
    (output,) = layer.outputs
    shape = layer.graph.tensors[output].shape
    tiles = LoopTiles(tuple(shape), (0, 2, 3, 1), 0, (1, 32, 1, 2), 1, 16)
    steps = steps_of(layer, tiles, FOUR_CORES.lanes)
    own = [step for step in steps if isinstance(step, Layout)]
    without = tuple([step for step in steps if not isinstance(step, Layout)])

    assert own
    assert [step for step in settled(naive, without) if isinstance(step, Layout)] == own
