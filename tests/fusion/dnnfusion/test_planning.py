"""Blocks grow from One-to-One seeds, first to successors, then to predecessors (Listing 1)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.costs import KernelSeconds
from dsascape.fusion.dnnfusion import Exploration, dnnfusion_plan
from dsascape.fusion.plan import FusionPlan, violations
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.tiers import examples

UNSEEN = Exploration(kernel_s=None)


def plan_of(graph: Graph, how: Exploration = UNSEEN) -> FusionPlan:
    return dnnfusion_plan(Analysis(graph), how)


def profiled(kernel_s: KernelSeconds) -> Exploration:
    return Exploration(kernel_s=kernel_s)


def names(plan: FusionPlan) -> list[list[str]]:
    return [[plan.graph.ops[op].name for op in group.ops] for group in plan.groups]


def figure_3() -> Graph:
    """Return GEMM -> Add -> Conv -> ReLU -> Mul -> Sub, all results of one size."""
    net = Net("figure 3")
    image = (1, 4, 8, 8)
    product = net.matmul(net.input(*image), net.input(*image))
    x = net.relu(net.conv(net.add(product, net.input(*image)), 4))
    return net.graph(net.binary("Sub", net.binary("Mul", x, net.input(*image)), net.input(*image)))


def test_figure_3_add_takes_the_convolution_behind_it_and_not_the_product_before() -> None:
    plan = plan_of(figure_3())

    assert names(plan) == [["matmul1"], ["add1", "conv1", "relu1", "mul1", "sub1"]]
    assert plan.groups[1].boundary_reason == "fuse_break: Many-to-Many before Many-to-Many (matmul1)"


def test_predecessors_first_add_takes_the_product_before_it() -> None:
    assert names(plan_of(figure_3(), replace(UNSEEN, first="predecessors"))) == [
        ["matmul1", "add1"],
        ["conv1", "relu1", "mul1", "sub1"],
    ]


def test_of_both_orders_the_one_is_taken_whose_kernels_are_faster() -> None:
    """Swapping steps II and III, as the text allows, costs a block of five operators in favour of one of four."""
    graph = figure_3()
    large_is_slow = replace(profiled(lambda ops: 1.0 + (len(ops) == 5)), first="faster")
    large_is_fast = replace(profiled(lambda ops: 1.0 + (len(ops) == 4)), first="faster")

    assert names(plan_of(graph, large_is_slow)) == names(plan_of(graph, replace(UNSEEN, first="predecessors")))
    assert names(plan_of(graph, large_is_fast)) == names(plan_of(graph, UNSEEN))
    assert names(plan_of(graph, replace(UNSEEN, first="faster"))) == names(plan_of(graph, UNSEEN))


def test_the_smallest_intermediate_result_is_the_first_seed() -> None:
    net = Net()
    large = net.relu(net.input(1, 4, 8, 8))
    small = net.unary("Tanh", net.pool(large))
    graph = net.graph(net.unary("Exp", net.conv(small, 64)))
    plan = plan_of(graph)

    assert names(plan) == [["relu1", "maxpool1"], ["tanh1", "conv1", "exp1"]]
    assert "maxpool1" not in plan.groups[0].boundary_reason


class TestYellowCases:
    def movement(self) -> Graph:
        net = Net()
        x = net.relu(net.dense(net.input(2, 8, 4), 4))
        return net.graph(net.transpose(x, 0, 2, 1))

    def test_a_movement_joins_where_the_kernel_is_not_slower_for_it(self) -> None:
        assert names(plan_of(self.movement(), profiled(lambda ops: 1.0))) == [["matmul1", "relu1", "transpose1"]]

    def test_a_movement_stays_out_where_the_kernel_is_slower(self) -> None:
        def kernel_s(ops: Sequence[int]) -> float:
            return 1e-6 * (9.0 if len(ops) > 2 else 1.0)

        plan = plan_of(self.movement(), profiled(kernel_s))
        assert names(plan) == [["matmul1"], ["relu1", "transpose1"]]
        assert plan.groups[1].boundary_reason == "fuse_depend: 9 us with matmul1, 2 us apart"

    def test_depend_pairs_can_be_left_unfused(self) -> None:
        assert names(plan_of(self.movement(), replace(UNSEEN, fuses_depend=False))) == [
            ["matmul1"],
            ["relu1", "transpose1"],
        ]

    def test_without_a_machine_they_are_fused(self) -> None:
        assert names(plan_of(self.movement())) == [["matmul1", "relu1", "transpose1"]]

    @pytest.mark.parametrize(("most_slowdown", "longest_s"), [(1.0, 2e-6), (2.0, 4e-6)])
    def test_a_green_pair_is_not_fused_where_the_kernel_is_slower_than_allowed(
        self, most_slowdown: float, longest_s: float
    ) -> None:
        net = Net()
        graph = net.graph(net.unary("Tanh", net.relu(net.input(2, 4))))

        def together(seconds: float) -> FusionPlan:
            how = profiled(lambda ops: seconds if len(ops) > 1 else 1e-6)
            return plan_of(graph, replace(how, most_slowdown=most_slowdown))

        assert names(together(longest_s)) == [["relu1", "tanh1"]]
        assert names(together(5e-6)) == [["relu1"], ["tanh1"]]
        assert together(5e-6).groups[0].boundary_reason == "fuse_through: 5 us with tanh1, 2 us apart"

    @settings(max_examples=examples(50))
    @given(seconds=st.dictionaries(st.integers(0, 63), st.floats(0.1, 9.0)), graph=st.builds(figure_3))
    def test_no_plan_is_slower_than_the_operators_apart(self, seconds: dict[int, float], graph: Graph) -> None:
        """Whatever the kernels take: Table 3 alone would fuse some at a loss."""

        def kernel_s(ops: Sequence[int]) -> float:
            return seconds.get(sum(1 << op for op in ops), 1.0)

        plan = plan_of(graph, profiled(kernel_s))
        apart_s = sum(kernel_s((op,)) for op in range(len(graph.ops)))
        assert sum(kernel_s(group.ops) for group in plan.groups) <= apart_s * (1 + 1e-9)

    def test_no_kernel_is_profiled_if_bounds_decide(self) -> None:
        net = Net()
        graph = net.graph(net.unary("Exp", net.unary("Tanh", net.relu(net.input(2, 4)))))
        asked: list[tuple[int, ...]] = []

        def kernel_s(ops: Sequence[int]) -> float:
            asked.append(tuple(ops))
            return 1e-6

        how = replace(profiled(kernel_s), least_s=lambda ops: 0.9e-6, most_s=lambda ops: 1.1e-6)
        assert names(plan_of(graph, how)) == [["relu1", "tanh1", "exp1"]]
        assert asked == []

    def test_operators_that_the_machine_cannot_run_as_one_kernel_are_no_block(self) -> None:
        def kernel_s(ops: Sequence[int]) -> float:
            return float("inf") if len(ops) > 2 else 1.0

        net = Net()
        x = net.input(2, 4)
        graph = net.graph(net.unary("Exp", net.unary("Tanh", net.relu(x))))
        plan = plan_of(graph, profiled(kernel_s))

        assert names(plan) == [["relu1", "tanh1"], ["exp1"]]
        assert plan.groups[0].boundary_reason == "the machine cannot run exp1 in the same kernel"


class TestConstraints:
    def test_a_path_through_another_block_keeps_its_ends_separate(self) -> None:
        """Between the first and the last addition lies a product of matrices, which cannot join."""
        net = Net()
        x = net.relu(net.input(1, 8, 8))
        square = net.matmul(net.matmul(x, x), x)
        plan = plan_of(net.graph(net.add(square, x)))

        assert violations(plan) == []
        assert names(plan) == [["relu1", "matmul1"], ["matmul2", "add1"]]

    def test_a_block_has_no_more_operands_than_allowed(self) -> None:
        net = Net()
        x = net.input(2, 4)
        for _ in range(6):
            x = net.add(x, net.input(2, 4))
        plan = plan_of(net.graph(x), replace(UNSEEN, most_operands=4))

        assert len(plan.groups) == 3
        assert plan.groups[0].boundary_reason == "5 operands with add3, more than 4"

    def test_results_that_leave_a_block_share_its_loops(self) -> None:
        net = Net()
        x = net.relu(net.input(2, 8, 4))
        plan = plan_of(net.graph(net.transpose(x, 0, 2, 1), net.unary("Exp", x)))

        assert names(plan) == [["relu1", "exp1"], ["transpose1"]]


def test_operators_that_no_seed_reaches_stay_alone() -> None:
    net = Net()
    plan = plan_of(net.graph(net.dense(net.dense(net.input(2, 4), 4), 4)))

    assert names(plan) == [["matmul1"], ["matmul2"]]
    assert plan.groups[0].boundary_reason == "Many-to-Many operator that no seed reached"
