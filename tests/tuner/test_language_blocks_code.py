"""Code of state spaces and mixtures of experts computes what onnxruntime does, and a loop over tokens in numpy."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, reference
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.decomposition.state_space import CHUNK
from dsascape.workloads.decomposition.writer import OWN
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.language.model_writer import ModelWriter
from tests.tuner.runs import outcomes

pytestmark = pytest.mark.tvm

BATCH, CHANNELS, STATES = 2, 5, 8


def scan(tokens: int) -> Graph:
    """Return a selective scan with steps and rates as Mamba has them, the state behind it a result, too."""
    model = ModelWriter("scan")
    of_tokens = {name: (BATCH, tokens, size) for name, size in (("x", CHANNELS), ("dt", CHANNELS), ("b", STATES))}
    data, steps, entering = [model.input(name, *shape) for name, shape in of_tokens.items()]
    rates, skipping = model.weight("a", CHANNELS, STATES), model.weight("d", CHANNELS)
    leaving, state = model.input("c", BATCH, tokens, STATES), model.input("h", BATCH, CHANNELS, STATES)
    steps = model.op("Softplus", steps, to="steps")
    rates = model.op("Neg", model.op("Exp", rates, to="exp"), to="rates")
    operands = data, steps, rates, entering, leaving, skipping, state
    model.several("SelectiveScan", *operands, to=("y", "last"), domain=OWN)
    for name in ("y", "last"):
        model.output(name)
    return import_onnx(model.content(), name="scan")


def experts(rows: int, count: int, chosen: int, hidden: int, inner: int) -> Graph:
    model = ModelWriter("experts")
    data, scores = model.input("x", 1, rows, hidden), model.input("scores", rows, count)
    gate, up = [model.weight(name, count, inner, hidden) for name in ("gate", "up")]
    down = model.weight("down", count, hidden, inner)
    model.op("BalancedExperts", data, scores, gate, up, down, to="y", domain=OWN, chosen=chosen)
    model.output("y")
    return import_onnx(model.content(), name="experts")


@pytest.mark.parametrize("tokens", [1, 20, CHUNK + 3])
def test_onnxruntime_computes_a_scan_as_a_loop_over_tokens_does(tokens: int) -> None:
    graph = scan(tokens)
    network, inputs = executable(graph), drawn_inputs(graph)
    value: dict[str, Any] = {**network.values, **inputs}
    steps, rates = np.log1p(np.exp(value["dt"])), -np.exp(value["a"])
    state, found = value["h"], []
    for token in range(tokens):
        data, entering, leaving = (value[name][:, token] for name in ("x", "b", "c"))
        step = steps[:, token]
        state = np.exp(step[..., None] * rates) * state + (step * data)[..., None] * entering[:, None]
        found.append((state * leaving[:, None]).sum(-1) + data * value["d"])
    wanted = reference(network, inputs, ["y", "last"])

    np.testing.assert_allclose(np.stack(found, 1), wanted["y"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(state, wanted["last"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("tokens", [1, 20, CHUNK + 3])
def test_a_scan_is_correct(tokens: int) -> None:
    graph = scan(tokens)
    for plan in (unfused_plan(graph), fixed_pattern_plan(graph)):
        found, refused = outcomes(plan)

        assert refused == {}
        assert max(found.values()) <= KERNEL_TOLERANCE


@pytest.mark.parametrize("sizes", [(6, 8, 2, 16, 24), (1, 4, 2, 8, 8), (5, 3, 1, 4, 6)])
def test_a_mixture_of_experts_is_correct(sizes: tuple[int, int, int, int, int]) -> None:
    found, refused = outcomes(unfused_plan(experts(*sizes)))

    assert refused == {}
    assert max(found.values()) <= KERNEL_TOLERANCE
