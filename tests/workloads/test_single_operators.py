"""Single operators are described by shapes, with operators of one operand before each input and after the result."""

from collections.abc import Mapping

import pytest

from dsascape.workloads import Graph, WorkloadError
from dsascape.workloads.single_operators import described, single_operator

LAYER = {
    "op": "Conv", "inputs": [[1, 3, 8, 8]], "weights": [[4, 3, 3, 3]],
    "then": [{"op": "BatchNormalization", "weights": [[4], [4], [4], [4]]}, "Relu"],
}  # fmt: skip
ATTENTION = {
    "op": "MatMul", "inputs": [[2, 5, 3, 4], [2, 5, 3, 4]],
    "before": [[{"op": "Transpose", "attributes": {"perm": [0, 2, 1, 3]}}],
               [{"op": "Transpose", "attributes": {"perm": [0, 2, 3, 1]}}]],
    "then": [{"op": "Softmax", "attributes": {"axis": -1}}],
}  # fmt: skip


def built(entry: Mapping[str, object]) -> Graph:
    return single_operator(described("own", entry))


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def test_what_follows_has_weights_of_its_own() -> None:
    graph = built(LAYER)
    assert kinds(graph) == ["Conv", "BatchNormalization", "Relu"]
    assert graph.tensors["own"].shape == (1, 4, 6, 6)


def test_each_input_passes_through_operators_of_its_own() -> None:
    graph = built(ATTENTION)
    assert kinds(graph) == ["Transpose", "Transpose", "MatMul", "Softmax"]
    assert graph.tensors["own"].shape == (2, 3, 5, 5)
    assert graph.operations.macs >= 2 * 3 * 5 * 5 * 4


def test_several_operators_before_an_input_come_one_after_the_other() -> None:
    entry = {"op": "MatMul", "inputs": [[4, 6], [6, 2]], "before": [["Relu", "Neg"]], "then": ["Relu", "Neg"]}
    assert kinds(built(entry)) == ["Relu", "Neg", "MatMul", "Relu", "Neg"]


@pytest.mark.parametrize(
    ("entry", "needs"),
    [
        (LAYER | {"then": [{"op": "Relu", "size": 3}]}, "own: then: size: is unknown"),
        (LAYER | {"then": [{"weights": [[4]]}]}, "own: then: op: has None"),
        (LAYER | {"then": "Relu"}, "own: then: has 'Relu'"),
        (LAYER | {"then": [{"op": "BatchNormalization", "weights": [[0]]}]}, "own: then: weights"),
        (LAYER | {"then": [{"op": "BatchNormalization", "weights": [[5], [5], [5], [5]]}]}, "own"),
        (ATTENTION | {"before": [[], [], []]}, "needs a list of operators for each input"),
        (ATTENTION | {"before": [["Relu"], "Relu"]}, "own: before.1: has 'Relu'"),
        (ATTENTION | {"before": [[{"op": "Transpose", "attributes": [0, 1]}]]}, "own: before.0: attributes"),
    ],
)
def test_mistakes_name_the_key(entry: Mapping[str, object], needs: str) -> None:
    with pytest.raises(WorkloadError) as error:
        built(entry)
    assert needs in str(error.value)
    assert "\n" not in str(error.value)
