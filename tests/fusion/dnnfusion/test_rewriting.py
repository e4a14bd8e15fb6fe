"""Algebraic rewriting rules that save operations are applied where they save, and change no result."""

from dataclasses import replace

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from dsascape.fusion.dnnfusion.rewriting import RULES, Rewritten, Rule, rewritten
from dsascape.fusion.dnnfusion.rewriting.terms import parse
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.operators.registry import Array
from tests.fusion.dnnfusion.term_networks import TermNetwork, Way, variables, ways_of
from tests.fusion.dnnfusion.zoo_equality import TOLERANCE, deviation
from tests.graphs import Net


def values_of(graph: Graph, inputs: dict[str, Array]) -> list[Array]:
    return [np.asarray(value) for value in ReferenceEvaluator(executable(graph).model()).run(None, inputs)]


def assert_same_results(one: Graph, other: Graph, inputs: dict[str, Array]) -> None:
    for expected, found in zip(values_of(one, inputs), values_of(other, inputs), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_saves_operations_somewhere_and_changes_no_result(rule: Rule) -> None:
    fired = 0
    for ways in ways_of(rule):
        network = TermNetwork(rule.pattern, ways)
        graph = network.graph()
        found = rewritten(Analysis(graph), (rule,))
        if found.applications:
            fired += 1
            saved = graph.operations.flops - found.graph.operations.flops
            least = 0 if rule.moves_less else 1
            assert saved >= sum(application.saved_flops for application in found.applications) >= least
            assert_same_results(graph, found.graph, network.inputs(fired))
        if fired == 2:
            break
    assert fired


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.pattern.kind in ("Add", "Mul")], ids=str)
def test_chain_operands_that_a_rule_does_not_match_are_kept(rule: Rule) -> None:
    """``B / C * A`` with one more factor, and so on: the replacement need not be a chain of the same kind."""
    sign = {"Add": "+", "Mul": "*"}[rule.pattern.kind]
    longer = replace(rule, before=f"({rule.before}) {sign} R")
    fired = 0
    for ways in ways_of(longer):
        if ways["R"] != "input":
            continue
        network = TermNetwork(longer.pattern, ways)
        graph = network.graph()
        found = rewritten(Analysis(graph), (rule,))
        if found.applications:
            fired += 1
            assert_same_results(graph, found.graph, network.inputs(fired))
        if fired == 3:
            break
    assert fired


class TestTable4:
    """Operations before and after, of matrices of m by n."""

    M, N = 6, 6

    def counted(self, before: str, *weights: str) -> tuple[int, int]:
        """Return the operations of a term before and after all rewriting, without those of the sum behind it."""
        term = parse(before)
        ways: dict[str, Way] = {name: "weight" if name in weights else "input" for name in variables(term)}
        network = TermNetwork(term, ways)
        graph = network.graph()
        found = rewritten(Analysis(graph))
        assert_same_results(graph, found.graph, network.inputs(1))
        return self.flops(graph), self.flops(found.graph)

    def flops(self, graph: Graph) -> int:
        """Return the operations of a term's network without the sum behind the term."""
        return sum(op.operations.flops for op in graph.ops if op.kind != "CumSum")

    @pytest.mark.parametrize(
        ("before", "operations", "fewer"),
        [
            ("Recip(A) * Recip(A * B)", 4, 3),
            ("(A * Sqrt(B)) * (Sqrt(B) * C)", 5, 2),
            ("Abs(A) * B * Abs(C)", 4, 3),
            ("A * C + A * B", 3, 2),
            ("Square(A + B) - (A + B) * C", 5, 3),
        ],
    )
    def test_of_one_size(self, before: str, operations: int, fewer: int) -> None:
        size = self.M * self.N
        assert self.counted(before) == (operations * size, fewer * size)

    def test_a_sum_of_the_last_dimension_is_squared_before_it_is_multiplied(self) -> None:
        size = self.M * self.N
        before = "(A * ReduceSum(B)) * (ReduceSum(B) * C)"
        assert self.counted(before) == (5 * size, 3 * size + self.M)

    def test_a_sum_with_a_multiple_of_itself_reads_it_once_at_no_fewer_operations(self) -> None:
        """The printed 2 m n before and after; A is an operand of one operator instead of two."""
        network = TermNetwork(parse("A + A * B"), {"A": "input", "B": "input"})
        found = rewritten(Analysis(network.graph())).graph

        assert sum("A" in op.inputs for op in network.graph().ops) == 2
        assert sum("A" in op.inputs for op in found.ops) == 1
        assert_same_results(network.graph(), found, network.inputs(1))

    def test_one_and_a_weight_are_added_beforehand(self) -> None:
        size = self.M * self.N
        assert self.counted("A + A * B") == (2 * size, 2 * size)
        assert self.counted("A + A * B", "B") == (2 * size, size)

    def test_bits_are_shifted_after_the_sum(self) -> None:
        network = TermNetwork(parse("ReduceSum(BitShift(A, B))"), {"A": "input", "B": "rows"})
        graph = network.graph()
        found = rewritten(Analysis(graph))

        assert self.flops(graph) == 2 * self.M * self.N
        assert self.flops(found.graph) == self.M * self.N + self.M
        assert_same_results(graph, found.graph, network.inputs(1))

    def test_exponentials_are_multiplied_as_a_sum(self) -> None:
        assert self.counted("ReduceProd(Exp(A))") == (2 * self.M * self.N, self.M * self.N + self.M)


class TestSideConditions:
    def applied(self, graph: Graph) -> Rewritten:
        return rewritten(Analysis(graph))

    def test_shared_results_are_not_computed_twice(self) -> None:
        """Both products are results of their own, so that a sum of the factors would come on top."""
        net = Net()
        a, b, c = (net.input(4, 4) for _ in range(3))
        one, other = net.binary("Mul", a, b), net.binary("Mul", a, c)

        assert self.applied(net.graph(net.add(one, other), one, other)).applications == ()

    def test_a_factor_that_varies_along_the_reduction_stays_inside(self) -> None:
        net = Net()
        x = net.binary("Mul", net.input(4, 6), net.weight(6))
        assert self.applied(net.graph(net.reduce_mean(x, -1))).applications == ()

    def test_a_network_that_is_no_file_is_left_alone(self) -> None:
        net = Net()
        graph = net.graph(net.relu(net.relu(net.input(4, 4))))
        made = Graph(graph.name, graph.ops, graph.tensors, graph.inputs, graph.outputs, graph.batch)
        assert rewritten(Analysis(made)).graph is made


class TestWholeNetworks:
    def scaled_attention(self) -> Graph:
        net = Net()
        x = net.input(1, 16, 4)
        scores = net.matmul(net.dense(x, 4), net.transpose(net.dense(x, 4), 0, 2, 1))
        return net.graph(net.softmax(net.op("Div", [scores, net.scales(2.0)], (1, 16, 16))), dtype="fp32")

    def test_scores_are_scaled_before_the_product_that_makes_them_many(self) -> None:
        graph = self.scaled_attention()
        found = rewritten(Analysis(graph))

        assert [str(a.rule) for a in found.applications][:1] == ["MatMul(A, B) / C -> MatMul(A / C, B)  (single: C)"]
        assert_same_results(graph, found.graph, drawn_inputs(graph))

    def test_a_rewritten_network_keeps_its_dtype_and_can_change_its_batch(self) -> None:
        graph = self.scaled_attention().with_dtype("fp16")
        found = rewritten(Analysis(graph)).graph
        twice = found.with_batch(2)

        assert {tensor.dtype for tensor in twice.tensors.values()} == {"fp16"}
        assert twice.operations.flops == 2 * found.operations.flops

    def test_equal_operators_are_computed_once(self) -> None:
        net = Net()
        x, y = net.input(4, 4), net.input(4, 4)
        graph = net.graph(net.matmul(net.add(x, y), net.add(y, x)), dtype="fp32")
        found = rewritten(Analysis(graph)).graph

        assert [op.kind for op in found.ops] == ["Add", "MatMul"]
        assert_same_results(graph, found, drawn_inputs(graph))

    def test_a_scale_goes_into_the_weights_and_costs_nothing(self) -> None:
        net = Net()
        x = net.binary("Mul", net.bias(net.dense(net.input(2, 8, 4), 4)), net.weight(4))
        graph = net.graph(net.relu(net.bias(x)), dtype="fp32")
        found = rewritten(Analysis(graph)).graph

        assert [op.kind for op in found.ops] == ["MatMul", "Add", "Relu"]
        assert_same_results(graph, found, drawn_inputs(graph))


@pytest.mark.parametrize(
    ("name", "sequence"),
    [("squeezenet", None), ("bert-tiny-raw", None), pytest.param("mobilebert", 8, marks=pytest.mark.night)],
)
def test_networks_of_the_zoo_compute_the_same_as_before(name: str, sequence: int | None) -> None:
    """Networks that take a second or two; `zoo_equality` checks all."""
    graph = load_network(name, sequence=sequence)
    found = rewritten(Analysis(graph))

    assert found.applications
    assert deviation(graph, found.graph) < TOLERANCE
