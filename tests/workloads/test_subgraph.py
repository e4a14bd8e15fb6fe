"""Sets of operators: inputs, outputs and internal tensors, and the backward walk through their nests."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads import Graph
from dsascape.workloads.subgraph import PlacedNest, Subgraph, follow_back
from tests.graphs import Net, networks
from tests.tiers import examples


def residual() -> Graph:
    """Return conv1, relu1, conv2, add1 of conv2 and relu1, softmax1; relu1 is a result as well."""
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, 8, 8), 4))
    return net.graph(net.softmax(net.add(net.conv(x, 4), x)), x)


def test_inputs_are_read_and_not_written_inside_weights_included() -> None:
    graph = residual()

    assert Subgraph(graph, (0, 1)).inputs == ("in1", "w1")
    assert Subgraph(graph, (2, 3)).inputs == ("relu1", "w2")
    assert Subgraph(graph, (0, 1, 2, 3, 4)).inputs == ("in1", "w1", "w2")


def test_what_others_read_and_what_is_a_result_escapes() -> None:
    graph = residual()

    assert Subgraph(graph, (0, 1)).escaping == ("relu1",)
    assert Subgraph(graph, (0, 1, 2)).escaping == ("relu1", "conv2")
    assert Subgraph(graph, (0, 1, 2, 3, 4)).escaping == ("relu1", "softmax1")


def test_a_single_output_is_the_sink_and_nothing_else() -> None:
    graph = residual()

    assert Subgraph(graph, (2, 3)).has_single_output
    assert Subgraph(graph, (0, 1)).has_single_output
    assert not Subgraph(graph, (0, 1, 2)).has_single_output
    assert Subgraph(graph, (0, 1, 2)).sink.name == "conv2"


def test_what_is_used_up_inside_is_neither_read_by_others_nor_a_result() -> None:
    graph = residual()

    assert Subgraph(graph, (0, 1)).inner == ("conv1",)
    assert Subgraph(graph, (1, 2, 3)).inner == ("conv2",)
    assert Subgraph(graph, (0, 1, 2, 3, 4)).inner == ("conv1", "conv2", "add1")


def test_readers_are_those_inside() -> None:
    assert Subgraph(residual(), (0, 1, 2)).readers == {0: (1,), 1: (2,), 2: ()}
    assert Subgraph(residual(), (1, 2, 3)).readers == {1: (2, 3), 2: (3,), 3: ()}


def test_a_weight_that_is_read_twice_is_counted_once() -> None:
    net = Net()
    weight = net.weight(4, 4)
    graph = net.graph(net.matmul(net.matmul(net.input(2, 4), weight), weight), dtype="fp16")

    assert Subgraph(graph, (0, 1)).weight_bytes == 4 * 4 * 2
    assert Subgraph(graph, (1,)).inputs == ("matmul1", "w1")


def flattened() -> Graph:
    """Return relu1, its view flatten1, softmax1 of the view."""
    net = Net()
    return net.graph(net.softmax(net.flatten(net.relu(net.input(2, 4, 3, 3)))))


def test_a_view_stands_for_the_tensor_that_it_is_made_of() -> None:
    graph = flattened()

    assert Subgraph(graph, (0, 1)).escaping == ("flatten1",)
    assert Subgraph(graph, (0, 1)).stored_outputs == ("relu1",)
    assert Subgraph(graph, (2,)).inputs == ("flatten1",)
    assert Subgraph(graph, (2,)).stored_inputs == ("relu1",)


def test_a_tensor_whose_view_is_read_by_computation_outside_is_an_output_of_its_own_operator() -> None:
    graph = flattened()

    assert Subgraph(graph, (0,)).computed_outputs == ("relu1",)
    assert Subgraph(graph, (0, 1)).computed_outputs == ("relu1",)
    assert Subgraph(graph, (0, 2)).computed_outputs == ("softmax1",)


def test_a_view_outside_reads_a_name_but_computes_nothing() -> None:
    between = Subgraph(flattened(), (0, 2))

    assert between.escaping == ("relu1", "softmax1")
    assert between.inner == ("relu1",)


def test_a_view_alone_computes_nothing() -> None:
    view = Subgraph(flattened(), (1,))

    assert view.is_view
    assert view.computed == ()
    assert view.stored_inputs == view.stored_outputs == ("relu1",)
    assert not Subgraph(flattened(), (0, 1)).is_view


def test_a_tensor_whose_view_is_a_result_is_an_output() -> None:
    net = Net()
    graph = net.graph(net.flatten(net.relu(net.input(2, 4, 3, 3))))

    assert Subgraph(graph, (0, 1)).computed_outputs == ("relu1",)
    assert Subgraph(graph, (0, 1)).inner == ()


def _root(graph: Graph, name: str) -> str:
    for op in graph.ops:
        if name in op.outputs and op.is_view:
            return _root(graph, op.inputs[0])
    return name


def _used_outside(graph: Graph, name: str, ops: tuple[int, ...]) -> bool:
    """Whether computation outside or the network's caller gets ``name`` or a view of it."""
    if name in graph.outputs:
        return True
    for position, op in enumerate(graph.ops):
        if name in op.inputs and (
            any(_used_outside(graph, alias, ops) for alias in op.outputs) if op.is_view else position not in ops
        ):
            return True
    return False


def _once(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


@st.composite
def subgraphs(draw: st.DrawFn) -> Subgraph:
    graph = draw(networks())
    return Subgraph(graph, tuple(sorted(draw(st.sets(st.sampled_from(range(len(graph.ops))), min_size=1)))))


@settings(max_examples=examples(150))
@given(subgraph=subgraphs())
def test_a_drawn_set_has_the_inputs_and_outputs_that_looking_at_every_operator_finds(subgraph: Subgraph) -> None:
    graph, ops = subgraph.graph, subgraph.ops
    inside = [graph.ops[op] for op in ops]
    outside = [op for position, op in enumerate(graph.ops) if position not in ops]
    written = [name for op in inside for name in op.outputs]
    inputs = _once(name for op in inside for name in op.inputs if name not in written)
    escaping = _once(n for n in written if n in graph.outputs or any(n in op.inputs for op in outside))
    computed = _once(name for op in inside if not op.is_view for name in op.outputs)
    leaving = _once(name for name in computed if _used_outside(graph, name, ops))

    assert subgraph.written == tuple(written)
    assert subgraph.inputs == inputs
    assert subgraph.escaping == escaping
    assert subgraph.stored_inputs == _once(_root(graph, name) for name in inputs)
    assert subgraph.stored_outputs == _once(_root(graph, name) for name in escaping)
    assert subgraph.computed == computed
    assert subgraph.computed_outputs == leaving
    assert subgraph.inner == _once(name for name in computed if name not in leaving)
    assert subgraph.is_view == (not computed)
    assert subgraph.weight_bytes == sum(graph.tensors[n].size_bytes for n in inputs if n in _weights(graph))


def _weights(graph: Graph) -> set[str]:
    return {name for name, tensor in graph.tensors.items() if tensor.role == "weight"}


@dataclass(frozen=True)
class Copy:
    """A nest that writes ``target`` from ``reads``."""

    target: str
    reads: tuple[str, ...] = ()


def test_needs_are_merged_before_the_nest_that_writes_the_tensor_is_reached() -> None:
    """Count the uses of each tensor along all ways: ``a`` is used by ``b`` and ``c``, both by ``d``."""
    nests = (Copy("d", ("b", "c")), Copy("c", ("a",)), Copy("b", ("a", "a")), Copy("a", ("in",)))

    def uses(nest: Copy, times: int) -> list[tuple[str, int]]:
        return [(name, times) for name in nest.reads]

    assert follow_back(nests, {"d": 1}, uses, int.__add__) == {"d": 1, "b": 1, "c": 1, "a": 3, "in": 3}


def test_nests_whose_tensor_nobody_needs_are_passed_over() -> None:
    asked = []

    def note(nest: Copy, need: str) -> list[tuple[str, str]]:
        asked.append(nest.target)
        return [(name, need) for name in nest.reads if name != "unused"]

    nests = (Copy("d", ("b",)), Copy("c", ("a",)), Copy("b", ("in", "unused")), Copy("unused", ("in",)))

    assert follow_back(nests, {"d": "x"}, note, str.__add__).keys() == {"d", "b", "in"}
    assert asked == ["d", "b"]


def test_what_was_wanted_is_left_as_it_was() -> None:
    wanted = {"b": 1}
    follow_back((Copy("b", ("a",)),), wanted, lambda nest, need: [(name, need) for name in nest.reads], max)

    assert wanted == {"b": 1}


@settings(max_examples=examples(100))
@given(data=st.data(), subgraph=subgraphs())
def test_the_walk_reaches_all_that_leads_to_what_is_wanted(data: st.DataObject, subgraph: Subgraph) -> None:
    wanted = data.draw(st.sets(st.sampled_from(subgraph.written), min_size=1))

    def everything(placed: PlacedNest, need: bool) -> list[tuple[str, bool]]:
        return [(read.tensor, need) for read in placed.nest.reads]

    reached = set(wanted)
    nests = [nest for op in subgraph.ops for nest in subgraph.graph.ops[op].nests]
    while True:
        more = {read.tensor for nest in nests if nest.write.tensor in reached for read in nest.reads} - reached
        if not more:
            break
        reached |= more

    found = follow_back(subgraph.nests_backwards(), dict.fromkeys(wanted, True), everything, bool.__and__)
    assert found.keys() == reached


@settings(max_examples=examples(50))
@given(subgraph=subgraphs())
def test_nests_come_last_first_with_their_place_in_the_graph(subgraph: Subgraph) -> None:
    listed = list(subgraph.nests_backwards())

    places = [(placed.op, placed.number) for placed in listed]
    assert places == sorted(places, reverse=True)
    assert {placed.op for placed in listed} == set(subgraph.ops)
    assert all(placed.nest is subgraph.graph.ops[placed.op].nests[placed.number] for placed in listed)
    assert len(listed) == sum(len(subgraph.graph.ops[op].nests) for op in subgraph.ops)
