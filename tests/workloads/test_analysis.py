"""Results derived from a network are memoized within bounds, and equal those of the plain function."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads import Box, Graph
from dsascape.workloads.analysis import Analysis, Table
from dsascape.workloads.loopnest import full_box
from dsascape.workloads.regions import moving_dims, placed_regions, required_regions
from dsascape.workloads.subgraph import Subgraph
from tests.graphs import Net, networks
from tests.tiers import examples
from tests.workloads.test_regions import boxes


class RecordingDerivation:
    """A derivation that records the arguments of its calls."""

    def __init__(self) -> None:
        self.arguments: list[tuple[object, ...]] = []

    def __call__(self, analysis: Analysis, *arguments: object) -> tuple[str, object]:
        self.arguments.append(arguments)
        return analysis.graph.name, arguments


def network(name: str = "net") -> Graph:
    net = Net(name)
    return net.graph(net.relu(net.input(2, 4)))


class TestOf:
    def test_a_value_is_worked_out_once_per_arguments(self) -> None:
        analysis, derive = Analysis(network()), RecordingDerivation()

        found = [analysis.of(derive, *arguments) for arguments in ((1,), (2,), (1,), (1, 2), (), (2,), (), (1, 2))]

        assert derive.arguments == [(1,), (2,), (1, 2), ()]
        assert found == [("net", given) for given in ((1,), (2,), (1,), (1, 2), (), (2,), (), (1, 2))]

    def test_what_comes_back_is_the_same_object(self) -> None:
        analysis, derive = Analysis(network()), RecordingDerivation()

        assert analysis.of(derive, 1) is analysis.of(derive, 1)

    def test_arguments_that_are_equal_are_the_same(self) -> None:
        analysis, derive = Analysis(network()), RecordingDerivation()
        for ops in ([1, 2], [1, 2]):
            analysis.of(derive, tuple(ops), frozenset(ops))

        assert len(derive.arguments) == 1

    def test_nothing_is_a_value_too(self) -> None:
        asked = []

        def none(analysis: Analysis, number: int) -> None:
            del analysis
            asked.append(number)

        analysis = Analysis(network())
        for number in (1, 1, 2):
            analysis.of(none, number)

        assert asked == [1, 2]

    def test_two_functions_do_not_see_each_others_values(self) -> None:
        analysis, one, other = Analysis(network()), RecordingDerivation(), RecordingDerivation()
        for derive in (one, other, one, other):
            analysis.of(derive, 1)

        assert one.arguments == other.arguments == [(1,)]

    def test_what_fails_is_asked_again(self) -> None:
        tries = []

        def second_time(analysis: Analysis, number: int) -> int:
            del analysis
            tries.append(number)
            if len(tries) == 1:
                raise ValueError("not yet")
            return number

        analysis = Analysis(network())
        with pytest.raises(ValueError, match="not yet"):
            analysis.of(second_time, 7)

        assert analysis.of(second_time, 7) == 7
        assert tries == [7, 7]

    def test_a_function_may_ask_for_what_others_and_itself_derive(self) -> None:
        def fibonacci(analysis: Analysis, number: int) -> int:
            if number < 2:
                return number
            return analysis.of(fibonacci, number - 1) + analysis.of(fibonacci, number - 2)

        assert Analysis(network(), most_entries=3).of(fibonacci, 30) == 832040

    def test_arguments_that_cannot_be_hashed_are_refused(self) -> None:
        with pytest.raises(TypeError, match="unhashable"):
            Analysis(network()).of(RecordingDerivation(), [1, 2])


class TestBounds:
    def test_a_full_table_forgets_its_oldest_value_and_no_other(self) -> None:
        analysis, derive = Analysis(network(), most_entries=2), RecordingDerivation()

        for number in (1, 2, 3, 3, 2, 1, 3):  # 3 drives 1 out, 1 then drives 2 out
            analysis.of(derive, number)

        assert derive.arguments == [(1,), (2,), (3,), (1,)]

    def test_each_function_has_room_of_its_own(self) -> None:
        analysis, one, other = Analysis(network(), most_entries=1), RecordingDerivation(), RecordingDerivation()
        for derive in (one, other, one, other):
            analysis.of(derive, 1)

        assert len(one.arguments) == len(other.arguments) == 1

    def test_a_table_can_have_a_bound_of_its_own(self) -> None:
        analysis, derive = Analysis(network(), most_entries=100), RecordingDerivation()
        table = analysis.table(derive, 2)
        for number in range(10):
            table.get(number, partial(derive, analysis, number))

        assert len(table) == 2
        assert len(analysis.table(derive)) == 2  # the same one

    @given(most=st.integers(1, 5), keys=st.lists(st.integers(0, 8), max_size=40))
    def test_a_table_never_holds_more_than_it_may_and_answers_as_if_it_held_all(
        self, most: int, keys: list[int]
    ) -> None:
        table: Table[int] = Table(most)

        for key in keys:
            assert table.get(key, partial(pow, key, 2)) == key**2
            assert len(table) <= most
        assert len(table) == min(most, len(set(keys)))


class TestTwoAnalyses:
    def test_share_nothing_even_of_one_graph(self) -> None:
        graph, derive = network(), RecordingDerivation()
        one, other = Analysis(graph), Analysis(graph)

        assert one.of(derive, 1) == other.of(derive, 1)
        assert derive.arguments == [(1,), (1,)]
        assert one.of(derive, 1) is not other.of(derive, 1)

    def test_answer_for_their_own_graphs(self) -> None:
        derive = RecordingDerivation()

        assert [Analysis(network(name)).of(derive)[0] for name in ("a", "b")] == ["a", "b"]

    def test_are_equal_only_if_they_are_one(self) -> None:
        graph = network()
        one, other = Analysis(graph), Analysis(graph)

        assert one != other
        assert len({one, other, one}) == 2

    def test_say_what_they_are_of(self) -> None:
        assert repr(Analysis(network("mine"))) == "Analysis(mine, batch 2)"


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks(), most=st.integers(1, 4))
def test_regions_are_those_of_the_plain_function_however_little_is_remembered(
    data: st.DataObject, graph: Graph, most: int
) -> None:
    output, ops, analysis = graph.outputs[0], tuple(range(len(graph.ops))), Analysis(graph, most)
    for _ in range(4):
        wanted = {output: data.draw(boxes(full_box(graph.tensors[output].shape)))}

        assert placed_regions(analysis, ops, wanted) == required_regions(graph, ops, wanted)


Derived = Callable[..., object]


def of_operators(analysis: Analysis, ops: tuple[int, ...]) -> tuple[object, ...]:
    subgraph = Subgraph(analysis.graph, ops)
    return subgraph.escaping, subgraph.inner, subgraph.weight_bytes


def of_tiles(analysis: Analysis, ops: tuple[int, ...], name: str, tile: Box) -> dict[str, Box]:
    return required_regions(analysis.graph, ops, {name: tile})


def of_moves(analysis: Analysis, ops: tuple[int, ...], name: str, dim: int) -> object:
    return moving_dims(analysis.graph, ops, (name,), dim)


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_what_is_derived_in_any_order_is_what_the_function_gives_on_its_own(data: st.DataObject, graph: Graph) -> None:
    analysis = Analysis(graph, data.draw(st.sampled_from([1, 3, 1000])))
    for _ in range(data.draw(st.integers(1, 8))):
        first = data.draw(st.integers(0, len(graph.ops) - 1))
        ops = tuple(range(first, data.draw(st.integers(first, len(graph.ops) - 1)) + 1))
        name = graph.ops[ops[-1]].outputs[0]
        shape = graph.tensors[name].shape
        questions: list[tuple[Derived, tuple[object, ...]]] = [
            (of_operators, (ops,)),
            (of_tiles, (ops, name, full_box(shape))),
            *((of_moves, (ops, name, dim)) for dim in range(len(shape))),
        ]
        derive, arguments = data.draw(st.sampled_from(questions))

        assert analysis.of(derive, *arguments) == derive(Analysis(graph), *arguments)
