"""Reuse on CPUs: features are those of the loops, shapes become programs that have them, reuse takes few trials."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.kinds.cpu import CpuSpace, task_of
from dsascape.tuner.search.reuse.loop_rounds import LoopRounds, around, expected_trials, serial_dims
from dsascape.tuner.search.reuse.loop_shapes import CoreFacts, LoopFeatures, LoopNestShapes, LoopShapes
from dsascape.tuner.search.reuse.loops import CarriedLoops, ReusableLoops
from dsascape.tuner.search.reuse.nests import operator_of
from dsascape.tuner.search.reuse.operators import FeatureRatios, ReuseError
from dsascape.tuner.search.reuse.shapes import MajorNest
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.tuner.search import kernels

VIEW = CpuView(load_hardware("platinum_8269cy", Cpu))
MACHINE = SearchMachine.of_cpu(VIEW, "fp32")
FACTS = CoreFacts(4, 8, 16, (1024, 8192))
"""Four cores, vectors of eight, 16 registers, two caches."""


def product(rows: int, columns: int, depth: int, facts: CoreFacts = FACTS) -> LoopNestShapes:
    net = Net()
    nest = net.graph(net.dense(net.input(rows, depth), columns), dtype="fp32").ops[0].nests[0]
    return LoopNestShapes(MajorNest(nest, line_bytes=64), 0, facts, 1, frozenset({nest.reads[1].tensor}))


def test_portions_fill_cores_as_far_as_their_number_allows() -> None:
    assert [FACTS.balance(portions) for portions in (1, 4, 5, 8, 9)] == [0.25, 1, 5 / 8, 1, 9 / 12]


def test_working_sets_are_those_of_the_levels_that_each_cache_holds() -> None:
    """A register tile of 2 x 8: 2 x 16 and 16 x 8 operands, 16 sums: 704 bytes. A block of 8 x 16, depth 32: 3,584."""
    nest = product(16, 16, 32)
    shapes = LoopShapes((8, 16), (0, 1), (8, 16), (4, 16), 16, (2, 8))
    assert nest.working_set((2, 8), 16) == 4 * (2 * 16 + 16 * 8 + 2 * 8)
    assert nest.working_set((8, 16), 32) == 4 * (8 * 32 + 32 * 16 + 8 * 16)
    assert nest.features(shapes) == LoopFeatures(2, 2, (704, 3584))


def test_register_tiles_need_the_fewest_loads_of_all_that_registers_hold() -> None:
    """For each number of sums: rows are broadcast, columns are vectors; 12 sums are 6 rows x 2 vectors or 4 x 3."""
    nest = product(24, 96, 32)
    assert nest.loads((6, 16)) == 6 + 2
    found = nest.registers((24, 96))
    for sums, register in found.items():
        rows, vectors = register[0], register[1] // 8
        assert (rows * vectors, rows * vectors + vectors + 1 <= 16) == (sums, True)
        others = [(a, sums // a) for a in range(1, sums + 1) if sums % a == 0 and 24 % a == 0 and 12 % (sums // a) == 0]
        assert rows + vectors == min(a + b for a, b in others if sums + b + 1 <= 16)
    assert found[12] == (4, 24)


def test_neighbouring_portions_of_a_core_share_the_operand_that_needs_more_lines() -> None:
    """With 16 portions for four cores, a core has a row of four, or a column: that with the fewer lines is first."""
    nest = product(64, 64, 256)
    portion = (16, 16)
    first = nest.orders(portion)[0]
    requests = {order: nest.nest.requests(nest.run(portion, order)) for order in nest.orders(portion)}
    assert requests[first] == min(requests.values())
    assert nest.run(portion, (0, 1)) == (16, 64)
    assert serial_dims((64, 64), (16, 64), (0, 1)) == (1,)


def test_numbers_of_portions_fill_the_cores_and_stay_within_relation_1() -> None:
    reused = LoopFeatures(8, 4, (512, 4096))
    rounds = LoopRounds(product(64, 64, 128), reused, FeatureRatios(Fraction(1, 2), Fraction(2)), is_held=True)
    assert rounds.splits()[0] == 8
    assert all(4 <= each <= 16 and each % 4 == 0 for each in rounds.splits())


def convolution(channels: int, image: int, width: int, taps: int = 1) -> Graph:
    net = Net()
    return net.graph(net.relu(net.conv(net.input(1, channels, image, image), width, taps)), dtype="fp32")


def task(graph: Graph) -> Task:
    analysis = Analysis(graph)
    layer = layer_of(analysis, range(len(graph.ops)))
    assert layer is not None
    found = task_of(layer, CpuCosts(VIEW, analysis, "fp32"))
    assert found is not None
    return found


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("is_held", [True, False])
def test_shapes_become_the_program_that_has_them(taps: int, is_held: bool) -> None:
    own = task(convolution(32, 16, 64, taps))
    kernel, rng = ReusableLoops(CpuSpace(own.naive, MACHINE)), random.Random(taps)
    dim = kernel.nest.order[-1]
    nest = kernel.shapes_along(dim)
    found = 0
    for portions in (4, 16, 20, 32):
        portion = nest.best_portion(portions)
        if portion is None:
            continue
        register = rng.choice(sorted(nest.registers(portion).values()))
        order = nest.orders(portion)[0]
        shapes = rng.choice(list(around(nest, portion, register, order, is_held=is_held)))
        program = kernel.program(shapes, CarriedLoops(is_held, "block", "block", 1, dim, 1))
        assert program is not None
        features, wanted = kernel.features(program), nest.features(shapes)
        assert (features.portions, features.accumulators) == (wanted.portions, wanted.accumulators)
        assert kernel.carried(program).is_held == shapes.is_held
        found += 1
    assert found


def test_features_of_the_built_in_choice_are_read_off_its_loops() -> None:
    own = task(convolution(64, 14, 128))
    kernel = ReusableLoops(CpuSpace(own.naive, MACHINE))
    features, carried = kernel.features(own.program()), kernel.carried(own.program())
    assert features.portions >= VIEW.spec.core_count / 2
    assert 1 < features.accumulators <= VIEW.spec.simd.registers
    assert carried.vector_dim == kernel.nest.order[-1]
    caches = CoreFacts.of(VIEW, MACHINE.lanes).caches
    assert all(size <= most for size, most in zip(features.working_sets, caches, strict=True))


@pytest.mark.parametrize(("taps", "image"), [(1, 14), (3, 14)])
def test_reuse_of_a_fast_program_comes_near_the_built_in_choice_with_few_trials(taps: int, image: int) -> None:
    """From 128 channels to 256: 90 % of the speed of a tile search, with 20 programs at most."""
    small, large = task(convolution(128, image, 128, taps)), task(convolution(256, image, 128, taps))
    own, reused = [ReusableLoops(CpuSpace(each.naive, MACHINE)) for each in (large, small)]
    runner = SimulatedRunner(VIEW, "fp32")
    tried: dict[Program, float] = {}

    def fastest(programs: Sequence[Program]) -> Program | None:
        for each in programs:
            if each not in tried:
                (answer,) = runner.answers(large, [each])
                tried[each] = math.inf if answer.seconds is None else answer.seconds
        return min(programs, key=tried.__getitem__, default=None)

    operators = [operator_of(each.naive, lambda _: own.kinds) for each in (large, small)]
    found = own.search(reused, small.program(), FeatureRatios.of(*operators), fastest)
    (builtin,) = runner.answers(large, [large.program()])
    assert found is not None
    assert builtin.seconds is not None
    assert len(tried) <= 20
    assert tried[found] <= builtin.seconds / 0.9


def test_expected_trials_are_the_same_for_the_same_seed() -> None:
    ratios = FeatureRatios(Fraction(1, 2), Fraction(2))
    one = [expected_trials(product(32, 64, 64), product(32, 64, 32), ratios, random.Random(5), 2) for _ in range(2)]
    assert one[0] == one[1] >= 1


def test_products_of_two_and_of_three_dimensions_are_compared_along_their_own_vectors() -> None:
    net, ratios = Net(), FeatureRatios(Fraction(1), Fraction(1))
    batched = task(net.graph(net.matmul(net.input(4, 16, 8), net.input(4, 8, 16)), dtype="fp32"))
    net = Net()
    flat = task(net.graph(net.dense(net.input(16, 8), 16), dtype="fp32"))
    three, two = (ReusableLoops(CpuSpace(each.naive, MACHINE)) for each in (batched, flat))

    for own, other, program in [(three, two, flat.program()), (two, three, batched.program())]:
        assert own.expected_trials(other, ratios, random.Random(1)) >= 1
        own.search(other, program, ratios, lambda programs: next(iter(programs), None))


def test_a_kernel_of_several_products_is_tuned_from_nothing() -> None:
    with pytest.raises(ReuseError, match="other dimensions than its result"):
        ReusableLoops(CpuSpace(kernels.pair_behind(), MACHINE))
