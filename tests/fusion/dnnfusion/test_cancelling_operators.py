"""Operators that cancel out, or do nothing, are removed: their consumers read the original tensor."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dsascape.fusion.dnnfusion.rewriting import rewritten
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import drawn_inputs
from tests.fusion.dnnfusion.test_rewriting import assert_same_results
from tests.tiers import examples

Shape = tuple[int, ...]


class Chain:
    """Operators one behind the other, between two that are no movements."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape
        self._nodes = [helper.make_node("Tanh", ["x"], ["t0"])]
        self._known: list[onnx.TensorProto] = []
        self.last = "t0"

    def then(self, kind: str, *known: list[int], outputs: int = 1, of: str = "", **attributes: Any) -> list[str]:
        """Add an operator behind the last one or ``of`` others, with operands that are known; return its outputs."""
        names = []
        for values in known:
            names.append(f"k{len(self._known)}")
            self._known.append(numpy_helper.from_array(np.array(values, np.int64), names[-1]))
        made = [f"t{len(self._nodes)}_{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, [*(of or self.last).split(","), *names], made, **attributes))
        self.last = made[0]
        return made

    def with_number(self, kind: str, value: float) -> None:
        self._known.append(numpy_helper.from_array(np.array(value, np.float32), f"k{len(self._known)}"))
        made = f"t{len(self._nodes)}_0"
        self._nodes.append(helper.make_node(kind, [self.last, self._known[-1].name], [made]))
        self.last = made

    def graph(self, batch: int | None = None) -> Graph:
        nodes = [*self._nodes, helper.make_node("Exp", [self.last], ["y"])]
        value = helper.make_tensor_value_info
        inputs = [value("x", TensorProto.FLOAT, self._shape)]
        body = helper.make_graph(nodes, "chain", inputs, [value("y", TensorProto.FLOAT, None)], self._known)
        model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
        graph = import_onnx(model.SerializeToString(), name="chain")
        return graph if batch is None else graph.with_batch(batch)


def kinds(chain: Chain) -> list[str]:
    graph = chain.graph()
    found = rewritten(Analysis(graph)).graph
    assert_same_results(graph, found, drawn_inputs(graph))
    return [op.kind for op in found.ops]


NOTHING: dict[str, Callable[[Chain], object]] = {
    "x + 0": lambda c: c.with_number("Add", 0),
    "x - 0": lambda c: c.with_number("Sub", 0),
    "x * 1": lambda c: c.with_number("Mul", 1),
    "x / 1": lambda c: c.with_number("Div", 1),
    "x to the power of 1": lambda c: c.with_number("Pow", 1),
    "Identity": lambda c: c.then("Identity"),
    "Dropout": lambda c: c.then("Dropout"),
    "Cast to the same type": lambda c: c.then("Cast", to=TensorProto.FLOAT),
    "Reshape to the same shape": lambda c: c.then("Reshape", [2, 4, 6]),
    "Transpose that permutes nothing": lambda c: c.then("Transpose", perm=[0, 1, 2]),
    "Slice of all": lambda c: c.then("Slice", [0], [6], [2]),
    "Transpose and its inverse": lambda c: (c.then("Transpose", perm=[2, 0, 1]), c.then("Transpose", perm=[1, 2, 0])),
    "Reshape and back": lambda c: (c.then("Reshape", [2, 24]), c.then("Reshape", [2, 4, 6])),
    "Reshape without common factors and back": lambda c: (c.then("Reshape", [3, 16]), c.then("Reshape", [2, 4, 6])),
    "Unsqueeze and Squeeze": lambda c: (c.then("Unsqueeze", [1]), c.then("Squeeze", [1])),
    "movements of both kinds and back": lambda c: (
        c.then("Reshape", [2, 2, 2, 6]), c.then("Transpose", perm=[0, 2, 1, 3]), c.then("Transpose", perm=[0, 2, 1, 3]),
        c.then("Reshape", [2, 4, 6]),
    ),
    "Split and Concat": lambda c: c.then("Concat", of=",".join(c.then("Split", [2, 4], outputs=2, axis=2)), axis=2),
    "Slices and Concat": lambda c: c.then(
        "Concat", of=f"{c.then('Slice', [0], [2], [1])[0]},{c.then('Slice', [2], [4], [1], of='t0')[0]}", axis=1
    ),
    "Concat and Slice": lambda c: (
        c.then("Concat", of=f"t0,{c.then('Sin')[0]}", axis=2), c.then("Slice", [0], [6], [2]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING)
def test_operators_without_effect_are_removed(name: str) -> None:
    chain = Chain(2, 4, 6)
    NOTHING[name](chain)

    assert kinds(chain) == ["Tanh", "Exp"]


@pytest.mark.parametrize(
    ("name", "add"),
    {
        "another permutation": lambda c: (c.then("Transpose", perm=[2, 0, 1]), c.then("Transpose", perm=[2, 0, 1])),
        "one from the end": lambda c: c.then("Slice", [-1], [-7], [2], [-1]),
        "parts in another order": lambda c: c.then(
            "Concat", of=",".join(reversed(c.then("Split", [3, 3], outputs=2, axis=2))), axis=2
        ),
        "half of it twice": lambda c: c.then("Concat", of=",".join(c.then("Slice", [0], [3], [2]) * 2), axis=2),
        "a reshape across a permutation": lambda c: (c.then("Transpose", perm=[0, 2, 1]), c.then("Reshape", [2, 4, 6])),
        "x + 1": lambda c: c.with_number("Add", 1),
    }.items(),
)
def test_operators_that_move_or_change_elements_stay(name: str, add: Callable[[Chain], object]) -> None:
    chain = Chain(2, 4, 6)
    add(chain)

    assert len(kinds(chain)) > 2, name


def test_operators_without_effect_only_at_one_image_stay() -> None:
    """A permutation of a dimension of one, and a reshape back: with two images elements change places."""
    chain = Chain(1, 4, 6)
    chain.then("Transpose", perm=[1, 0, 2])
    chain.then("Reshape", [-1, 4, 6])
    graph = chain.graph()
    found = rewritten(Analysis(graph)).graph

    twice, expected = found.with_batch(2), graph.with_batch(2)
    assert_same_results(expected, twice, drawn_inputs(expected))


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_chain_of_movements_gives_the_same_before_and_after(data: st.DataObject) -> None:
    shape: Shape = (2, 3, 4)
    chain = Chain(*shape)
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            order = data.draw(st.permutations(range(3)))
            chain.then("Transpose", perm=order)
            shape = (shape[order[0]], shape[order[1]], shape[order[2]])
        else:
            shape = tuple(data.draw(st.permutations(shape)))
            chain.then("Reshape", list(shape))

    kinds(chain)
