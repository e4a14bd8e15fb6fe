"""Operators read off loop nests: kinds, loops in TVM's order, what tells them apart, and who can reuse whom."""

from fractions import Fraction

import pytest
from hypothesis import given

from dsascape.tuner.search.reuse.nests import Counted, counted, operator_of, operator_of_nest, operators_of
from dsascape.tuner.search.reuse.operators import (
    FeatureRatios,
    IterationSpace,
    Operator,
    ReuseError,
    Window,
    is_reuse_pair,
    reuse_pairs,
)
from dsascape.tuner.search.reuse.readings import read_nest
from dsascape.tuner.search.reuse.sketch_sets import CROSS_THREAD, MULTI_LEVEL, TWO_LEVEL
from dsascape.workloads import load_network
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.graphs import Net
from tests.tuner.search import kernels
from tests.tuner.search.reuse.drawn import product_of, sets_of_products


def read(op: str, data: tuple[int, ...], weight: tuple[int, ...], **attributes: list[int] | int) -> Operator:
    graph = single_operator(SingleOperator("it", op, (data,), (weight,), attributes))
    (found,) = operators_of(graph)
    return found.operator


def multiplied(left: tuple[int, ...], right: tuple[int, ...]) -> Operator:
    (found,) = operators_of(single_operator(SingleOperator("it", "MatMul", (left, right))))
    return found.operator


FIGURE_2 = read("Conv", (1, 512, 28, 28), (128, 512, 1, 1))


class TestKindsAndLoops:
    def test_the_convolution_of_figure_2_has_its_loops(self) -> None:
        assert str(FIGURE_2.kind) == "C2D"
        assert FIGURE_2.loops == IterationSpace((1, 128, 28, 28), (512, 1, 1))

    @pytest.mark.parametrize(
        ("found", "text"),
        [
            (read("Conv", (2, 3, 20), (8, 3, 5), strides=[2]), "C1D 2x8x8 over 3x5, stride 2"),
            (read("Conv", (1, 3, 8, 9, 10), (4, 3, 3, 1, 1)), "C3D 1x4x6x9x10 over 3x3x1x1"),
            (read("Conv", (1, 6, 8, 8), (4, 3, 3, 3), group=2), "GRP 1x4x6x6 over 3x3x3, 2 groups"),
            (read("Conv", (1, 6, 8, 8), (6, 1, 3, 3), group=6), "DEP 1x6x6x6 over 3x3, 6 groups"),
            (read("Conv", (1, 6, 8), (12, 1, 3), group=6), "DEP C1D 1x12x6 over 3, 6 groups"),
            (
                read("ConvTranspose", (1, 6, 4, 4), (6, 5, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
                "T2D 1x5x8x8 over 6x4x4, stride 2x2",
            ),
            (multiplied((2, 12, 16, 64), (2, 12, 64, 8)), "BMM 24x16x8 over 64"),
            (multiplied((2, 16, 64), (64, 8)), "BMM 1x32x8 over 64"),
            (read("Gemm", (4, 30), (30, 10)), "BMM 1x4x10 over 30"),
        ],
    )
    def test_kinds_are_those_of_the_paper(self, found: Operator, text: str) -> None:
        assert str(found) == text

    def test_groups_along_images_that_are_patches_are_told_from_windows(self) -> None:
        patches = read("Conv", (1, 6, 8, 8), (6, 3, 4, 4), strides=[4, 4], group=2)

        assert [(window.space, window.tap, window.stride) for window in patches.windows] == [(2, 1, 4), (3, 2, 4)]

    def test_windows_of_a_depthwise_convolution_count_its_own_reductions(self) -> None:
        found = read("Conv", (1, 6, 9, 9), (6, 1, 3, 3), group=6, dilations=[2, 1], pads=[1, 0, 1, 0])

        assert found.windows == (Window(2, 0, 9, dilation=2, padding=1), Window(3, 1, 9))

    def test_each_loop_is_told_which_loops_of_the_nest_it_is(self) -> None:
        grouped = single_operator(SingleOperator("it", "Conv", ((1, 6, 8, 8),), ((4, 3, 3, 3),), {"group": 2}))
        batches = single_operator(SingleOperator("it", "MatMul", ((2, 3, 16, 64), (2, 3, 64, 8))))
        names = [
            [["".join([nest.loops[number].name for number in each]) for each in loops] for loops in both]
            for nest in (grouped.ops[0].nests[0], batches.ops[0].nests[0])
            for both in [(read_nest(nest).space, read_nest(nest).reduction)]
        ]

        assert names == [[["n", "goc", "o0", "o1"], ["ic", "k0", "k1"]], [["b0b1", "m", "n"], ["k"]]]

    def test_a_kernel_is_the_operator_of_its_major_nest(self) -> None:
        found = operator_of(kernels.convolution(channels=6, image=9, width=10))

        assert str(found) == "C2D 1x10x9x7 over 6x3x3"

    def test_anything_else_is_told_by_its_name_and_how_it_reads(self) -> None:
        pool, small = operator_of(kernels.max_pool(8, 10)), operator_of(kernels.max_pool(8, 6))
        softmax = operator_of(kernels.softmax())

        assert pool.kind == small.kind != softmax.kind
        assert pool.loops == IterationSpace((1, 8, 5, 5), (2, 2))
        assert not pool.kind.is_contraction
        assert [window.stride for window in pool.windows] == [2, 2]
        assert is_reuse_pair(pool, small)

    def test_a_nest_without_iterations_is_refused(self) -> None:
        nest = LoopNest("Copy", (Loop("i", 0),), (), Access("t", (0,), (Index(((0, 1),)),)))

        with pytest.raises(ReuseError, match="Copy: has a loop without iterations"):
            operator_of_nest(nest)


class TestSketchSets:
    def test_a_contraction_with_few_elements_shares_its_reduction_between_threads(self) -> None:
        assert multiplied((8, 64), (64, 8)).sketches == (MULTI_LEVEL,)
        assert multiplied((8, 65), (65, 8)).sketches == (CROSS_THREAD, MULTI_LEVEL)

    def test_any_other_reduction_is_shared_from_more_iterations_on_than_a_warp_has_threads(self) -> None:
        assert operator_of(kernels.minimum(10, 32)).sketches == (TWO_LEVEL,)
        assert operator_of(kernels.minimum(10, 33)).sketches == (CROSS_THREAD, TWO_LEVEL)

    def test_other_sketches_can_be_given(self) -> None:
        found = operator_of(kernels.softmax(), lambda operator: ("b", "a", "a"))

        assert found.sketches == ("a", "a", "b")


class TestCounts:
    def test_equal_operators_are_one(self) -> None:
        net = Net()
        x = net.conv(net.conv(net.conv(net.input(1, 8, 12, 12), 8), 8, stride=1), 8, stride=2)
        found = operators_of(net.graph(x))

        assert [(str(each.operator), each.count) for each in found] == [
            ("C2D 1x8x12x12 over 8x3x3", 2), ("C2D 1x8x6x6 over 8x3x3, stride 2x2", 1),
        ]  # fmt: skip

    def test_equal_loops_with_another_stride_are_two_operators_and_a_pair(self) -> None:
        one = read("Conv", (1, 4, 8, 8), (4, 4, 2, 2), strides=[2, 2])
        other = read("Conv", (1, 4, 5, 5), (4, 4, 2, 2))

        assert one.loops == other.loops
        assert reuse_pairs([one, other]) == ((0, 1), (1, 0))

    def test_counts_of_several_networks_add_up(self) -> None:
        one, other = product_of(1, 2, 3, 4, "first"), product_of(1, 2, 3, 4, "second")

        (found,) = counted([Counted(one, 2), Counted(other, 3)])

        assert (found.operator.name, found.count) == ("first", 5)

    def test_names_are_those_of_the_first_operator_of_a_network(self) -> None:
        found = operators_of(load_network("resnet50-v1"))

        assert sum(each.count for each in found) == 54
        assert len({each.operator.name for each in found}) == len(found)


class TestReusePairs:
    def test_the_ratios_of_example_3(self) -> None:
        half = read("Conv", (1, 256, 28, 28), (128, 256, 1, 1))
        ratios = FeatureRatios.of(half, FIGURE_2)

        assert [ratios.r1, ratios.r2] == [2, Fraction(1, 2)]
        assert [56 * end for end in ratios.blocks] == [28, 112]
        assert [224 * end for end in ratios.threads] == [112, 224]

    def test_ratios_above_one_begin_at_one(self) -> None:
        ratios = FeatureRatios.of(FIGURE_2, read("Conv", (1, 256, 28, 28), (128, 256, 1, 1)))

        assert [float(end) for end in ratios.threads] == [1, 2]
        assert [float(end) for end in ratios.blocks] == [0.5, 2]

    def test_kinds_sketches_and_dominance_decide(self) -> None:
        small, wide, deep = product_of(1, 8, 8, 8), product_of(1, 8, 16, 8), product_of(1, 4, 16, 16)

        assert is_reuse_pair(small, wide)
        assert not is_reuse_pair(small, deep)
        assert not is_reuse_pair(small, small)
        assert not is_reuse_pair(small, product_of(1, 8, 8, 512))
        assert not is_reuse_pair(FIGURE_2, product_of(1, 128, 28, 28))

    @given(sets_of_products)
    def test_pairs_go_both_ways(self, operators: list[Operator]) -> None:
        pairs = reuse_pairs(operators)

        assert {(other, one) for one, other in pairs} == set(pairs)

    @pytest.mark.parametrize(("network", "operators", "pairs"), [("resnet50-v1", 20, 24), ("resnet50", 23, 26)])
    def test_the_convolutions_of_resnet50(self, network: str, operators: int, pairs: int) -> None:
        found = [each.operator for each in operators_of(load_network(network)) if str(each.operator.kind) == "C2D"]

        assert (len(found), len(reuse_pairs(found))) == (operators, pairs)
