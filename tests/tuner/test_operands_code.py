"""Operands that are computed, and constants that are read as indices, in generated code of any tiles."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dsascape.scheduler.cpu.schedule.steps import Chosen, steps_of
from tests.scheduler.kernels.drawn import LANES

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.search.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, import_onnx
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import graph_with_bounded_nests
from dsascape.workloads.nest_by_nest import PATCHES, written_out
from dsascape.workloads.state import graph_with_state_in_place
from tests.hw_models.cpu.cpus import cpu
from tests.scheduler.cpu.test_groups_of_computed_weights import Grouped, network
from tests.tiers import examples
from tests.tuner.runs import deviations

pytestmark = pytest.mark.tvm

DRAWN = st.builds(
    Grouped, groups=st.integers(1, 4), results=st.sampled_from([1, 3, 8, 12]), channels=st.integers(1, 6),
    kernel=st.sampled_from([1, 3]), is_transposed=st.booleans(),
)  # fmt: skip


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=DRAWN)
def test_groups_of_computed_weights_are_right(drawn: Grouped) -> None:
    wrong = {name: by for name, by in deviations(fixed_pattern_plan(network(drawn))).items() if by > KERNEL_TOLERANCE}
    assert wrong == {}


def picked(order: list[int], kernel: int) -> Graph:
    """Return a convolution whose pixels' mean is picked by a constant list of channels, then scaled."""
    channels = max(order) + 1
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[kernel // 2] * 4),
        helper.make_node("ReduceMean", ["a"], ["m"], axes=[2, 3]),
        helper.make_node("Reshape", ["m", "flat"], ["f"]), helper.make_node("Gather", ["f", "order"], ["g"], axis=0),
        helper.make_node("Mul", ["g", "s"], ["y"]),
    ]  # fmt: skip
    values = {
        "w": np.ones((channels, 4, kernel, kernel), np.float32), "flat": np.array([-1]), "order": np.array(order),
        "s": np.linspace(1, 2, len(order), dtype=np.float32),
    }  # fmt: skip
    body = helper.make_graph(
        nodes, "picked", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )  # fmt: skip
    return import_onnx(helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


@settings(max_examples=examples(40, few=5), deadline=None, suppress_health_check=list(HealthCheck))
@given(order=st.permutations(list(range(7))), chunks=st.integers(1, 3), is_over_patches=st.booleans())
def test_constants_that_are_indices_survive_whatever_the_rest_is_computed_by(
    order: list[int], chunks: int, is_over_patches: bool
) -> None:
    plan = fixed_pattern_plan(picked(order, 3))
    costs = CpuCosts(CpuView(cpu(), CpuTuning(chunks_per_thread=chunks)), Analysis(plan.graph), "fp32")
    chosen = kernel_by_kernel(plan, costs, direct=range(len(plan.groups))).chosen
    if is_over_patches:
        (layer,) = layers_in_order(costs.analysis, plan.groups[0].ops, frozenset(), frozenset({(0, PATCHES)}))
        tiles = choose_tiling(layer, "fp32", costs.view, KnownTiles()).tiles
        chosen[0] = Chosen((steps_of(layer, tiles, LANES),), PATCHES)

    algorithms = {0: PATCHES} if is_over_patches else {}
    assert max(deviations(plan, chosen, algorithms).values()) <= KERNEL_TOLERANCE


def by(algorithm: int) -> Callable[[Graph], Graph]:
    return lambda graph: written_out(Analysis(graph), algorithms=frozenset({(0, algorithm)})).analysis.graph


REWRITTEN: dict[str, Callable[[Graph], Graph]] = {
    "over patches": by(PATCHES),
    "by Winograd's algorithm": by(2),
    "with bounds": graph_with_bounded_nests,
    "with caches in place": graph_with_state_in_place,
}


@pytest.mark.parametrize("how", REWRITTEN)
def test_no_other_form_of_a_network_loses_them(how: str) -> None:
    graph = picked([2, 0, 1], 3)

    assert "order" in graph.unlisted
    assert "order" in REWRITTEN[how](graph).tensors
