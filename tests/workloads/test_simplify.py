"""Simplification removes operators that compute nothing, and keeps operations, outputs and shapes."""

from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from dsascape.workloads import Graph, exported_names, import_onnx, load_network


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", exported_names())
def test_every_network_keeps_its_work_and_its_outputs(name: str) -> None:
    whole, simple = load_network(name), load_network(name, simplify=True)

    assert simple.operations.macs == whole.operations.macs
    assert {o: simple.tensors[o].shape for o in simple.outputs} == {
        o: whole.tensors[o].shape for o in whole.outputs
    }
    assert len(simple.ops) <= len(whole.ops)
    assert simple.activation_bytes <= whole.activation_bytes


def test_normalisations_of_a_raw_network_disappear_into_convolutions() -> None:
    raw, simple, clean = (
        load_network("resnet50-raw"),
        load_network("resnet50-raw", simplify=True),
        load_network("resnet50"),
    )

    assert sum(op.kind == "BatchNormalization" for op in raw.ops) == 53
    assert not any(op.kind == "BatchNormalization" for op in simple.ops)
    assert [op.kind for op in simple.ops[:119]] == [op.kind for op in clean.ops[:119]]


def test_it_holds_at_another_batch() -> None:
    whole, simple = (load_network("mobilevit-raw", simplify=simplify).with_batch(3) for simplify in (False, True))

    assert len(simple.ops) == len(load_network("mobilevit-raw", simplify=True).ops) < len(whole.ops)
    assert simple.operations.macs == whole.operations.macs
    assert [simple.tensors[o].shape for o in simple.outputs] == [whole.tensors[o].shape for o in whole.outputs]


def chain(*nodes: tuple[str, dict[str, Any]], shape: tuple[int, ...] = (2, 3, 4)) -> Graph:
    """Return the simplified chain of operators from x, with a Relu behind it."""
    names = ["x", *(f"t{place}" for place in range(len(nodes)))]
    made = [
        helper.make_node(kind, [names[place]], [names[place + 1]], **attributes)
        for place, (kind, attributes) in enumerate(nodes)
    ]
    made.append(helper.make_node("Relu", [names[-1]], ["y"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(made, "chain", inputs, outputs)
    built: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return import_onnx(built.SerializeToString(), simplify=True)


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def test_copies_are_dropped() -> None:
    assert kinds(chain(("Identity", {}), ("Dropout", {}), ("Cast", {"to": TensorProto.FLOAT}))) == ["Relu"]


def test_permutations_that_cancel_are_dropped() -> None:
    assert kinds(chain(("Transpose", {"perm": [1, 2, 0]}), ("Transpose", {"perm": [2, 0, 1]}))) == ["Relu"]


def test_permutations_that_do_not_cancel_become_one() -> None:
    graph = chain(("Transpose", {"perm": [1, 2, 0]}), ("Transpose", {"perm": [1, 2, 0]}))

    assert kinds(graph) == ["Transpose", "Relu"]
    assert graph.tensors["y"].shape == (4, 2, 3)


def test_chains_of_reshapes_become_one() -> None:
    assert kinds(chain(("Flatten", {"axis": 2}), ("Flatten", {"axis": 0}))) == ["Reshape", "Relu"]


def test_a_changing_cast_stays() -> None:
    assert kinds(chain(("Cast", {"to": TensorProto.FLOAT16}))) == ["Cast", "Relu"]
