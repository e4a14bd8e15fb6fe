"""Generated code of running sums: right along every dimension and direction, with one addition per element."""

import numpy as np
import pytest
from onnx import helper

from dsascape.fusion.unfused import unfused_plan
from tests.tuner.runs import outcomes
from tests.workloads.onnx_models import model, read

pytest.importorskip("tvm")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_they_are_what_onnxruntime_computes(axis: int, reverse: int, exclusive: int) -> None:
    node = helper.make_node("CumSum", ["x", "a"], ["y"], reverse=reverse, exclusive=exclusive)
    graph = read(model(node, inputs={"x": [3, 5, 7]}, a=np.array(axis)))
    found, refused = outcomes(unfused_plan(graph))

    assert not refused
    assert list(found.values()) == pytest.approx([0], abs=1e-6)
