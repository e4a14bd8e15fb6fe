"""Sketches: the counts of Ansor's own tests, the derivations of Fig. 5, the conditions of Table 1."""

from collections.abc import Callable

import pytest

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import statements_of
from dsascape.scheduler.kernels.loops.steps import ComputeAt, PartialSums, Steps, Tile, without_sizes
from dsascape.tuner.search.analysis import KernelNodes
from dsascape.tuner.search.genes import tile_groups, with_factors
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.rules import CPU_RULES, skip
from dsascape.tuner.search.sketches import Context, Derived, Sketch, State, sketches
from tests.graphs import Net
from tests.tuner.search import kernels
from tests.tuner.search.kernels import FOUR_CORES

RULES = {
    "skip": 1, "always_inline": 2, "tile": 3, "tile_and_fuse": 4, "add_cache_write": 5, "factor_reduction": 6,
}  # fmt: skip
"""Numbers of the rules in Table 1."""


def found(naive: NaiveProgram) -> tuple[Sketch, ...]:
    return sketches(Context(KernelNodes(naive), FOUR_CORES), CPU_RULES)


def derivations(naive: NaiveProgram) -> list[tuple[int, ...]]:
    return [tuple([RULES[name] for name in each.derivation]) for each in found(naive)]


def has_sums(steps: Steps) -> bool:
    return any(isinstance(step, PartialSums) for step in steps)


@pytest.mark.parametrize(
    ("naive", "count"),
    [
        (lambda: kernels.matmul(512, 512, 512), 3),
        (lambda: kernels.matmul(8, 8, 512), 5),
        (lambda: kernels.two_matmuls(512), 9),
        (lambda: kernels.convolution(512, 7, 512), 3),
        (lambda: kernels.max_pool(64, 56), 1),
        (lambda: kernels.minimum(10, 1024), 3),
        (lambda: kernels.softmax(1, 1024), 9),
        (kernels.zero_rank, 3),
    ],
    ids=["matmul", "long matmul", "two matmuls", "conv bn relu", "max pool", "min", "softmax", "zero rank"],
)
def test_there_are_as_many_sketches_as_ansor_has(naive: Callable[[], NaiveProgram], count: int) -> None:
    assert len(found(naive())) == count


def test_a_long_reduction_with_few_results_gets_partial_sums_in_two_ways() -> None:
    for columns in (8, 2):
        assert sum([has_sums(each.steps) for each in found(kernels.matmul(columns, columns, 512))]) == 2
    assert not any(has_sums(each.steps) for each in found(kernels.matmul(512, 512, 512)))


def test_derivations_of_the_papers_first_example() -> None:
    """Fig. 5, input 1: D is skipped, C tiled and fused with it, B and A are skipped."""
    assert (1, 4, 1, 1) in derivations(kernels.matmul_relu(512, 512, 512))


def test_derivations_of_the_papers_second_example() -> None:
    """Fig. 5, sketches 2 and 3."""
    own = derivations(kernels.second_input())
    assert (5, 4, 1, 1, 2, 1) in own
    assert (6, 1, 1, 2, 1) in own


def test_a_matmul_in_ssrsrs_has_ten_loops() -> None:
    """i0 j0 i1 j1 k0 i2 j2 k1 i3 j3, each of two iterations: 16 x 16 results of 4 products."""
    naive = kernels.matmul(16, 16, 4)
    sketch = next(each for each in found(naive) if "tile" in each.derivation)
    steps = sketch.steps
    for group in tile_groups(steps):
        levels = len(group.space)
        steps = with_factors(steps, group.space, dict.fromkeys((0, 1), (2,) * levels + (16 >> levels,)))
        steps = with_factors(steps, group.reductions, {2: (2, 2)}) if group.reductions else steps
    program = CpuSpace(naive, FOUR_CORES).completed(steps)
    assert program is not None
    around = next(around for around, each in statements_of(program.loops.body) if each.role == "update")
    assert "".join([loop.name[0] for loop in around]) == "mnmnkmnkmn"
    assert [loop.extent for loop in around] == [2] * 10


def test_the_consumer_is_fused_after_the_first_level_or_the_second() -> None:
    depths = {
        step.loops
        for sketch in found(kernels.matmul_relu(512, 512, 512))
        for step in sketch.steps
        if isinstance(step, ComputeAt)
    }
    assert depths == {2, 4}


def test_a_pointwise_function_is_inlined_unless_a_reduction_would_compute_it_again() -> None:
    net = Net()
    x = net.relu(net.conv(net.input(1, 8, 6, 6), 8, 1))
    nodes = KernelNodes(kernels.naive(net, net.relu(net.conv(x, 8, 1))))
    assert not nodes.is_strictly_inlinable("relu1")
    net = Net()
    nodes = KernelNodes(kernels.naive(net, net.relu(net.batch_norm(net.conv(net.input(1, 8, 6, 6), 8, 1)))))
    assert nodes.is_strictly_inlinable("batchnormalization1")


def test_padding_has_branches_and_is_not_inlined() -> None:
    assert not KernelNodes(kernels.second_input()).is_strictly_inlinable("pad1")


def test_an_expensive_function_is_inlined_where_each_element_is_asked_for_once() -> None:
    assert KernelNodes(kernels.gated()).is_strictly_inlinable("sigmoid1")
    assert not KernelNodes(kernels.softmax()).is_strictly_inlinable("softmax1:exp")


def test_what_uses_data_again_follows_from_the_nests() -> None:
    reuse = {
        "matmul1": kernels.matmul(), "conv1": kernels.convolution(), "conv2": kernels.fused_pair(),
    }  # fmt: skip
    assert all(KernelNodes(naive).has_data_reuse(name) for name, naive in reuse.items())
    none = {"maxpool1": kernels.max_pool(), "softmax1:max": kernels.softmax(), "reducemin1": kernels.minimum()}
    assert not any(KernelNodes(naive).has_data_reuse(name) for name, naive in none.items())


def test_a_rule_of_ones_own_stands_among_the_others() -> None:
    def nothing_tiled(context: Context, state: State) -> Derived | None:
        derived = skip(context, state)
        return None if derived is None else Derived(derived.states, is_last=True)

    own = sketches(Context(KernelNodes(kernels.matmul()), FOUR_CORES), (nothing_tiled, *CPU_RULES))
    assert [each.derivation for each in own] == [("nothing_tiled",) * 3]


def test_sketches_have_no_sizes() -> None:
    for sketch in found(kernels.two_matmuls()):
        assert without_sizes(sketch.steps) == sketch.steps
        assert all(level.sizes is None for step in sketch.steps if isinstance(step, Tile) for level in step.levels)
