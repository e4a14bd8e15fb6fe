"""Hints: whatever is drawn, changed, crossed or searched with a beam obeys them."""

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import PartialSums, Steps, Unroll, UnrollReduction
from dsascape.tuner.search.beam import BeamOptions, beam
from dsascape.tuner.search.evolution import EvolutionOptions, evolved
from dsascape.tuner.search.genes import step_of, tile_groups
from dsascape.tuner.search.hints import Hint, HintError, InnermostHint, check_hints, hinted_nodes
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.mutations import crossed
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.space import NoProgramError, Program
from tests.tiers import examples
from tests.tuner.search import kernels
from tests.tuner.search.kernels import FOUR_CORES, SMALL


def space(naive: NaiveProgram, *hints: Hint) -> CpuSpace:
    return CpuSpace(naive, FOUR_CORES, SpaceOptions(hints=hints))


def family(own: CpuSpace, count: int, seed: int = 0) -> list[Program]:
    """Return programs drawn, mutants of these, and children of neighbours."""
    rng = random.Random(seed)
    programs = [own.draw(rng) for _ in range(count)]
    mutants = [own.mutated(program.steps, rng) for program in programs for _ in range(4)]
    children = [crossed(own, one.steps, other.steps, rng) for one, other in itertools.pairwise(programs)]
    return [each for each in (*programs, *mutants, *children) if each is not None]


def of_axis(steps: Steps, levels: Sequence[tuple[str, int]], axis: int) -> list[int]:
    """Return the sizes of one axis in levels that have it, outermost first."""
    found = []
    for stage, number in levels:
        level = next(step for step in steps if step.stage == stage and hasattr(step, "levels")).levels[number]
        if level.sizes is not None and axis in level.order:
            found.append(level.sizes[level.order.index(axis)])
    return found


def innermost(steps: Steps, node: str, dim: int) -> Iterator[int]:
    """Yield what the innermost tiles of a node, and of what it is fused with, cover of a dimension."""
    for group in tile_groups(steps):
        if node in (group.inner.removesuffix(SUMS), group.consumer) and group.space:
            yield of_axis(steps, group.space, dim)[-1]


def test_innermost_tiles_are_multiples_or_of_one_size() -> None:
    """Rows of 12 x 20 results go four at a time, columns in sixteens, of which the second sticks out."""
    hint = Hint("matmul1", (InnermostHint(0, size=4), InnermostHint(1, multiple=16)))
    own = space(kernels.matmul_relu(), hint)
    rows = {size for program in family(own, 20) for size in innermost(program.steps, "matmul1", 0)}
    columns = {size for program in family(own, 20) for size in innermost(program.steps, "matmul1", 1)}

    assert rows == {4}
    assert columns == {16, 32}


def test_a_reduction_that_is_not_cut_is_in_one_level_or_another() -> None:
    """Two levels of 30 products: 30 in one and one in the other."""
    own = space(kernels.matmul(12, 20, 30), Hint("matmul1", whole_reduction=True, partial_sums=False))
    sizes = {
        tuple(of_axis(program.steps, group.reductions, 2))
        for program in family(own, 30)
        for group in tile_groups(program.steps)
        if len(group.reductions) == 2
    }  # fmt: skip

    assert sizes == {(1, 1), (30, 1)}


@pytest.mark.parametrize("most", [0, 16])
def test_nothing_is_unrolled_but_what_may_be(most: int) -> None:
    found = family(space(kernels.convolution(), Hint("*", unroll=most)), 20)
    unrolled = {step.most for program in found for step in program.steps if isinstance(step, Unroll)}
    written_out = [s for program in found for s in program.steps if isinstance(s, UnrollReduction) and s.factor > 1]

    assert unrolled == ({16} if most else set())
    assert bool(written_out) == bool(most)


@pytest.mark.parametrize("wanted", [True, False])
def test_partial_sums_are_all_or_none(wanted: bool) -> None:
    own = space(kernels.softmax(), Hint("softmax1:sum", partial_sums=wanted))
    found = {step_of(program.steps, "softmax1:sum.sum", PartialSums) is not None for program in family(own, 20)}

    assert found == {wanted}


REDUCTIONS = ("matmul", "two matmuls", "convolution", "max pool", "fused pair", "padded")


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(REDUCTIONS), dims=st.lists(st.integers(0, 1), max_size=2, unique=True),
    multiple=st.sampled_from((1, 2, 3, 8)), most=st.sampled_from((8, 24, 64)), whole=st.booleans(),
    unroll=st.sampled_from((None, 0, 64)), seed=st.integers(0, 99),
)  # fmt: skip
def test_draws_mutants_and_children_obey_any_hints(
    name: str, dims: list[int], multiple: int, most: int, whole: bool, unroll: int | None, seed: int
) -> None:
    """The hints are on the last node of the kernel that has a reduction."""
    naive = SMALL[name]()
    node = [stage.removesuffix(SUMS) for stage in naive.stages if stage.endswith(SUMS)][-1]
    sizes = tuple([InnermostHint(dim, multiple, most) for dim in dims])
    own = space(naive, Hint(node, sizes, whole, unroll, partial_sums=False))
    for program in family(own, 2, seed):
        assert not illegal(loop_program(naive, program.steps), FOUR_CORES.limits)
        for dim in dims:
            assert all(size % multiple == 0 and size <= most for size in innermost(program.steps, node, dim))
        for group in tile_groups(program.steps):
            if group.inner != node + SUMS:
                continue
            step = step_of(program.steps, group.inner, Unroll)
            assert unroll is None or step is None or (unroll > 0 and step.most == unroll)
            if whole:
                for loop, extent in own.reductions(group).items():
                    bounds = [extent, *of_axis(program.steps, group.reductions, loop)]
                    assert sum([outer > inner for outer, inner in itertools.pairwise(bounds)]) <= 1


def scores(programs: Sequence[Program]) -> NDArray[np.float64]:
    return np.array([float(len(program.loops.loops)) for program in programs])


def test_the_beam_and_the_evolution_obey_as_well() -> None:
    own = space(kernels.matmul_relu(), Hint("matmul1", (InnermostHint(1, multiple=8),)), Hint("*", unroll=0))
    rng = random.Random(0)
    parents = [CpuSpace(own.naive, FOUR_CORES).draw(rng) for _ in range(8)]
    found = [
        *beam(own, scores, rng, BeamOptions(width=4, draws=2)),
        *evolved(own, scores, (), rng, EvolutionOptions(population=16, generations=2)),
        *[each for parent in parents if (each := own.mutated(parent.steps, rng)) is not None],
    ]

    assert len(found) > 16
    assert all(size % 8 == 0 for program in found for size in innermost(program.steps, "matmul1", 1))
    assert not any(isinstance(step, Unroll) for program in found for step in program.steps)


def test_a_hint_names_operators_their_nodes_or_patterns_of_both() -> None:
    found = {pattern: hinted_nodes(kernels.softmax(), pattern) for pattern in ("softmax1", "*:max", "soft*", "relu1")}

    assert found["softmax1"] == found["soft*"] == ("softmax1:max", "softmax1:exp", "softmax1:sum", "softmax1")
    assert found["*:max"] == ("softmax1:max",)
    assert found["relu1"] == ()


@pytest.mark.parametrize(
    ("hints", "needs"),
    [
        ([Hint("conv1", unroll=0)], "conv1: is no operator of a kernel that is tuned; these have matmul1, relu1"),
        ([Hint("matmul1", (InnermostHint(2, size=4),))], "innermost.2: there is no such dimension; needs one of 2"),
        ([Hint("relu1", whole_reduction=True)], "relu1: reduction: has no reduction"),
        ([Hint("relu1", partial_sums=True)], "relu1: partial_sums: has no reduction"),
        ([Hint("matmul1", unroll=0), Hint("mat*", unroll=16)], "matmul1: unroll: hints need 0 and 16"),
        (
            [Hint("*", (InnermostHint(0, size=6),)), Hint("matmul1", (InnermostHint(0, multiple=4),))],
            "matmul1: innermost.0: no size from 1 to 64",
        ),
        (
            [Hint("matmul1", (InnermostHint(0, multiple=4),), partial_sums=True)],
            "innermost.0: partial sums are made element by element",
        ),
    ],
)
def test_hints_that_cannot_be_followed_are_refused(hints: list[Hint], needs: str) -> None:
    with pytest.raises(HintError, match=needs.replace("*", r"\*")):
        check_hints(hints, [kernels.matmul_relu()])


def test_a_kernel_of_which_no_program_obeys_says_so() -> None:
    with pytest.raises(NoProgramError, match="is legal and obeys the hints"):
        space(kernels.matmul_relu(), Hint("matmul1", partial_sums=True)).draw(random.Random(0))
