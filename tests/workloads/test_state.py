"""Caches are changed in place: what writes a piece writes that piece, what reads them reads them where they lie."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Loop, LoopNest, Operations
from dsascape.workloads.state import graph_with_state_in_place, states_of
from dsascape.workloads.through_movements import read_through, with_shared_loops_split
from tests.workloads.onnx_models import model


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def read(
    *nodes: onnx.NodeProto, inputs: dict[str, Any], outputs: tuple[str, ...], whole: tuple[str, ...] = (), **known: Any
) -> Graph:
    built = model(*nodes, inputs=inputs, outputs=outputs, **known)
    built.opset_import[0].version = 24
    for entry in built.graph.input:
        if entry.name in whole:
            entry.type.tensor_type.elem_type = TensorProto.INT64
    return import_onnx(built.SerializeToString(), name="cached")


CACHE, ONE, QUERY = [1, 2, 9, 4], [1, 2, 1, 4], [1, 2, 1, 4]


def grown(*, leaves: bool = True, reads: bool = True) -> Graph:
    nodes = [node("Concat", "past k", "present", axis=2)]
    if reads:
        nodes += [node("Transpose", "present", "t", perm=[0, 1, 3, 2]), node("MatMul", "q t", "y")]
    outputs = tuple(["y"] * reads + ["present"] * leaves)
    return read(*nodes, inputs={"past": CACHE, "k": ONE, "q": QUERY}, outputs=outputs)


def test_a_cache_that_grows_becomes_an_input_of_its_later_length() -> None:
    graph = grown()
    changed = graph_with_state_in_place(graph)

    assert [(state.before, state.after) for state in states_of(graph)] == [("past", "present")]
    assert [(op.kind, op.inputs, op.outputs) for op in changed.ops] == [
        ("Concat", ("k",), ("present:new",)), ("MatMul", ("q", "present"), ("y",)),
    ]  # fmt: skip
    assert changed.tensors["present"].shape == (1, 2, 10, 4)
    assert changed.tensors["present"].role == "input"
    assert changed.tensors["present:new"].shape == (1, 2, 1, 4)
    assert "past" not in changed.tensors
    assert changed.outputs == ("y", "present:new")


@pytest.mark.parametrize(("leaves", "reads"), [(False, True), (True, False)])
def test_a_tensor_that_stays_inside_or_that_nothing_reads_is_no_cache(leaves: bool, reads: bool) -> None:
    graph = grown(leaves=leaves, reads=reads)

    assert states_of(graph) == ()
    assert graph_with_state_in_place(graph) is graph


def test_an_input_that_something_else_reads_is_no_cache() -> None:
    graph = read(
        node("Concat", "past k", "present", axis=2), node("Relu", "past", "r"), node("Sigmoid", "present", "y"),
        inputs={"past": CACHE, "k": ONE}, outputs=("present", "r", "y"),
    )  # fmt: skip

    assert states_of(graph) == ()


def test_what_is_longer_than_the_past_is_not_put_behind_it() -> None:
    nodes = node("Concat", "a b", "c", axis=1), node("Relu", "c", "y")
    graph = read(*nodes, inputs={"a": [2, 3], "b": [2, 8]}, outputs=("c", "y"))

    assert states_of(graph) == ()


def test_a_chunk_longer_than_the_past_is_put_behind_it_where_products_read_both() -> None:
    """Thirty of 9 + 30 places are written."""
    nodes = [
        node("Concat", "past k", "present", axis=2), node("Transpose", "present", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "q t", "y"),
    ]  # fmt: skip
    graph = read(*nodes, inputs={"past": CACHE, "k": [1, 2, 30, 4], "q": [1, 2, 30, 4]}, outputs=("y", "present"))
    changed = graph_with_state_in_place(graph)

    assert [state.after for state in states_of(graph)] == ["present"]
    assert changed.tensors["present:new"].shape == (1, 2, 30, 4)
    assert [op.inputs for op in changed.ops] == [("k",), ("q", "present")]


SCATTERS = {
    "TensorScatter": (node("TensorScatter", "c u i", "y", axis=2), {"c": CACHE, "u": ONE, "i": [1]}),
    "ScatterND": (node("ScatterND", "c i u", "y"), {"c": CACHE, "u": ONE, "i": [1, 2, 1, 3]}),
    "ScatterElements": (node("ScatterElements", "c i u", "y", axis=2), {"c": CACHE, "u": ONE, "i": ONE}),
}


@pytest.mark.parametrize("kind", SCATTERS)
def test_a_scatter_writes_its_updates(kind: str) -> None:
    scatter, inputs = SCATTERS[kind]
    changed = graph_with_state_in_place(read(scatter, inputs=inputs, outputs=("y",), whole=("i",)))
    (op,) = changed.ops
    (nest,) = op.nests

    assert (op.inputs, op.outputs) == (("u", "i"), ("y:new",))
    assert nest.extents == tuple(ONE)
    assert nest.reads[0].region([(0, size) for size in ONE]) == tuple((0, size) for size in ONE)
    assert graph_with_state_in_place(changed) is changed


def test_a_scatter_that_adds_reads_what_was_there_and_stays_as_it_is() -> None:
    scatter = node("ScatterND", "c i u", "y", reduction="add")

    assert states_of(read(scatter, inputs=SCATTERS["ScatterND"][1], outputs=("y",), whole=("i",))) == ()


def test_heads_that_an_exporter_repeats_are_read_where_they_lie() -> None:
    """Four query heads for each of two key heads: the repeated keys are no tensor, the heads two loops."""
    graph = read(
        node("Concat", "past k", "present", axis=2), node("Unsqueeze", "present two", "u"),
        node("Expand", "u shape", "e"), node("Reshape", "e flat", "r"), node("Transpose", "r", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "q t", "y"),
        inputs={"past": CACHE, "k": ONE, "q": [1, 8, 1, 4]}, outputs=("y", "present"),
        two=np.array([2]), shape=np.array([1, 2, 4, 10, 4]), flat=np.array([1, 8, 10, 4]),
    )  # fmt: skip
    changed = graph_with_state_in_place(graph)
    (nest,) = changed.ops[-1].nests
    keys = next(access for access in nest.reads if access.tensor == "present")

    assert [op.kind for op in changed.ops] == ["Concat", "MatMul"]
    assert [loop.extent for loop in nest.loops] == [1, 2, 4, 1, 10, 4]
    assert nest.operations() == graph.ops[-1].nests[0].operations()
    assert not keys.uses(2)


def test_elements_read_through_a_movement_are_those_that_it_moves() -> None:
    """Every element of a product's operand, through random permutations: the same value as by way of the copy."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        shape, order = (2, 3, 4), tuple(generator.permutation(3).tolist())
        moved = tuple(shape[dim] for dim in order)
        loops = tuple(Loop(f"i{dim}", size) for dim, size in enumerate(moved))
        own = tuple(Index(((order.index(dim), 1),)) for dim in range(3))
        copy = tuple(Index(((dim, 1),)) for dim in range(3))
        move = LoopNest("move", loops, (Access("x", shape, own),), Access("t", moved, copy))
        found = read_through(Access("t", moved, copy), move, loops)
        values = generator.standard_normal(shape)
        assert found is not None
        for point in np.ndindex(*moved):
            place = tuple(lo for lo, _ in found.region([(at, at + 1) for at in point]) or ())
            assert values[place] == values.transpose(order)[point]


def test_a_loop_of_which_several_iterations_read_the_same_is_split() -> None:
    loops = (Loop("h", 6), Loop("k", 5, reduction=True))
    shared = Access("a", (2, 5), (Index(((0, 1),), divisor=3), Index(((1, 1),))))
    write = Access("y", (6,), (Index(((0, 1),)),))
    nest = with_shared_loops_split(LoopNest("product", loops, (shared,), write, Operations(macs=1)))

    assert [(loop.extent, loop.reduction) for loop in nest.loops] == [(2, False), (3, False), (5, True)]
    assert nest.reads[0].indices == (Index(((0, 1),)), Index(((2, 1),)))
    assert nest.write.indices == (Index(((0, 3), (1, 1))),)
