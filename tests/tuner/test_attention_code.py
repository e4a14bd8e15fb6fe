"""Attention as real code, in each form, unfused and as one kernel, computes what onnxruntime does of its operator."""

from collections.abc import Callable

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper

from dsascape.fusion import plan_from_groups, unfused_plan
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.executable import drawn_inputs, executable
from tests.tuner.runs import deviations

pytestmark = pytest.mark.tvm

WIDTH = 8


def model(
    queries: int, keys: int, *, heads: int = 2, key_heads: int = 2, past: int = 0, is_causal: int = 0
) -> ModelProto:
    sizes = {
        "q": [1, heads, queries, WIDTH], "k": [1, key_heads, keys, WIDTH], "v": [1, key_heads, keys, WIDTH],
    }  # fmt: skip
    names, results = ["q", "k", "v"], ["y"]
    if past:
        sizes |= {name: [1, key_heads, past, WIDTH] for name in ("pk", "pv")}
        names, results = [*names, "", "pk", "pv"], ["y", "k1", "v1"]
    nodes = [helper.make_node("Attention", names, results, is_causal=is_causal)]
    return _built(nodes, sizes, results)


def written_out() -> ModelProto:
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    return _built(nodes, {"q": [1, 2, 5, WIDTH], "k": [1, 2, WIDTH, 9], "v": [1, 2, 9, WIDTH]}, ["y"])


def _built(nodes: list[NodeProto], sizes: dict[str, list[int]], results: list[str]) -> ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    body = helper.make_graph(nodes, "attention", inputs, outputs)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


FORMS: dict[str, Callable[[], ModelProto]] = {
    "whole": lambda: model(5, 9),
    "written out": written_out,
    "causal": lambda: model(7, 7, is_causal=1),
    "grouped heads": lambda: model(6, 6, heads=4, is_causal=1),
    "with a past": lambda: model(4, 4, past=5, is_causal=1),
    "one token behind a past": lambda: model(1, 1, heads=4, past=12, is_causal=1),
}


def behind_caches(graph: Graph) -> FusionPlan:
    """Return the plan of one kernel for all but the caches, which leave the network."""
    caches = [number for number, op in enumerate(graph.ops) if op.kind == "Concat"]
    rest = [number for number in range(len(graph.ops)) if number not in caches]
    return plan_from_groups(graph, [*[Group((number,)) for number in caches], Group(tuple(rest))])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plan_of", [unfused_plan, behind_caches], ids=["unfused", "in one kernel"])
def test_its_kernels_are_correct(form: str, plan_of: Callable[[Graph], FusionPlan]) -> None:
    graph = import_onnx(FORMS[form]().SerializeToString(), name="attention")
    found = deviations(plan_of(graph))

    assert found
    assert {name: each for name, each in found.items() if each > KERNEL_TOLERANCE} == {}


@pytest.mark.parametrize("form", FORMS)
def test_what_kernels_are_compared_with_is_the_operator_itself(form: str) -> None:
    asked = FORMS[form]()
    network = executable(import_onnx(asked.SerializeToString(), name="attention"))
    inputs = drawn_inputs(network.graph)
    asked_for, written = [
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(["y"], inputs)[0]
        for each in (asked, network.model())
    ]

    np.testing.assert_allclose(written, asked_for, rtol=1e-4, atol=1e-5)
