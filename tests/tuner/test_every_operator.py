"""Every operator is computed as onnxruntime computes it, or rejected with a message that names it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.tuner.measure import Job, MeasureError, measure_plan
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, WorkloadError, import_onnx
from dsascape.workloads.executable import executable
from tests.scheduler.kernels.drawn import LANES
from tests.tiers import NIGHT
from tests.tuner.runs import loops_of, outcomes
from tests.workloads import small_kernels, small_movements
from tests.workloads.small_operators import MAKERS

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

assert small_kernels
assert small_movements  # they add to the makers


def right_or_refused(graph: Graph, *, fused: bool = False) -> bool:
    """Return whether there is code for all kernels; fail where a result is wrong, or a refusal names no operator."""
    plan = fixed_pattern_plan(graph) if fused else unfused_plan(graph)
    found, refused = outcomes(plan)
    assert {name: by for name, by in found.items() if by > KERNEL_TOLERANCE} == {}
    kinds = {f"{op.name} ({op.kind}): " for op in graph.ops}
    assert [reason for reason in refused.values() if not any(reason.startswith(kind) for kind in kinds)] == []
    return not refused


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_an_operator_of_any_kind_is_right_or_refused_by_name(kind: str) -> None:
    for seed in range(2 if NIGHT else 1):
        graph = MAKERS[kind](np.random.default_rng(seed), kind).graph().with_dtype("fp32")
        said = refusal(graph)
        assert not said or f"onnxruntime rejects node {graph.ops[0].name!r} ({graph.ops[0].kind}): " in said


def refusal(graph: Graph) -> str:
    """Return what is said of a network that cannot be compared; empty for one that is right, or refused by name."""
    try:
        right_or_refused(graph)
    except WorkloadError as error:
        return str(error)
    return ""


def model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], outputs: Mapping[str, int], opset: int,
    constants: Mapping[str, Any] | None = None,
) -> Graph:  # fmt: skip
    body = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )  # fmt: skip
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return import_onnx(made.SerializeToString())


def resized(opset: int, factors: Sequence[float], sizes: Sequence[int] = (), **attributes: Any) -> Graph:
    """Return a network that resizes an image of 5 x 6 pixels."""
    constants: dict[str, Any] = {"s": np.asarray([1, 1, *factors], np.float32)}
    if opset < 10:
        node = helper.make_node("Upsample", ["x", "s"], ["y"], **attributes)
        if opset < 9:
            node = helper.make_node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, *map(float, factors)], **attributes)
            constants = {}
    elif opset == 10:
        node = helper.make_node("Resize", ["x", "s"], ["y"], **attributes)
    else:
        roi = attributes.pop("roi", None)
        constants["r"] = np.asarray([] if roi is None else roi, np.float32)
        given = ["x", "r", "s"]
        if sizes:
            constants = {"r": constants["r"], "z": np.asarray(sizes, np.int64)}
            given = ["x", "r", "", "z"] if opset > 12 else ["x", "r", "e", "z"]
            constants |= {} if opset > 12 else {"e": np.zeros(0, np.float32)}
        node = helper.make_node("Resize", given, ["y"], **attributes)
    return model([node], (1, 2, 5, 6), {"y": TensorProto.FLOAT}, opset, constants)


TRANSFORMS = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
FACTORS = [(2.0, 3.0), (0.5, 1.5), (2.0, 0.4)]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_before_opset_11_output_o_takes_input_o_by_the_scale(opset: int, mode: str) -> None:
    factors = [(2.0, 3.0), (1.5, 2.0)] if opset < 10 else FACTORS
    made = [right_or_refused(resized(opset, each, mode=mode)) for each in factors]

    assert made[0]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_pixels_are_taken_from_where_the_mode_says(opset: int, mode: str, transform: str) -> None:
    roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] if mode == "nearest" else [None]
    for rounding in roundings:
        for factors in FACTORS:
            given: dict[str, Any] = {} if rounding is None else {"nearest_mode": rounding}
            right_or_refused(
                resized(opset, factors, mode=mode, coordinate_transformation_mode=transform, **given)
            )
    right_or_refused(resized(opset, (1, 1), (1, 2, 7, 4), mode=mode, coordinate_transformation_mode=transform))


def rarer() -> Iterator[dict[str, Any]]:
    for mode in ("nearest", "linear"):
        crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode, "extrapolation_value": 9.0}
        yield crop | {"roi": [0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9]}
        yield crop | {"roi": [0, 0, -0.4, 0.2, 1, 1, 1.3, 0.9]}
    yield {"mode": "linear", "antialias": 1}
    yield {"mode": "cubic", "antialias": 1}
    yield {"mode": "cubic", "exclude_outside": 1}
    yield {"mode": "cubic", "cubic_coeff_a": -0.5}
    yield {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}
    for policy in ("not_larger", "not_smaller"):
        for mode in ("nearest", "linear"):
            yield {"mode": mode, "keep_aspect_ratio_policy": policy, "sizes": [9, 7], "axes": [2, 3]}


@pytest.mark.parametrize("attributes", list(rarer()), ids=str)
def test_what_is_rarer_is_right_or_refused_too(attributes: dict[str, Any]) -> None:
    for factors in ((2.0, 3.0), (0.5, 0.6)):
        right_or_refused(resized(19, factors, **attributes))


POOL: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1]}


@pytest.mark.parametrize("changes", [{}, {"storage_order": 1}, {"dilations": [2, 1]}, {"pads": [1, 1, 1, 0]}], ids=str)
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_where_largest_elements_lie_is_no_largest_element(both: bool, cast: bool, changes: dict[str, Any]) -> None:
    pool = helper.make_node("MaxPool", ["x"], ["m", "i"], **POOL, **changes)
    behind = [helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)] if cast else []
    wanted = {"y": TensorProto.FLOAT} if cast else {"i": TensorProto.INT64}
    graph = model([pool, *behind], (1, 2, 7, 6), wanted | ({"m": TensorProto.FLOAT} if both else {}), 12)

    assert not right_or_refused(graph, fused=True)


def test_a_mask_of_a_dropout_keeps_everything() -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "m"])

    assert right_or_refused(model([node], (3, 5), {"y": TensorProto.FLOAT, "m": TensorProto.BOOL}, 13))


@pytest.mark.parametrize("kind", ["Xor", "Equal"])
def test_truth_values_are_compared(kind: str) -> None:
    nodes = [
        helper.make_node("Greater", ["x", "a"], ["p"]), helper.make_node("Less", ["x", "b"], ["q"]),
        helper.make_node(kind, ["p", "q"], ["y"]),
    ]  # fmt: skip
    constants = {"a": np.float32(0.3), "b": np.float32(0.6)}

    assert right_or_refused(model(nodes, (5, 9), {"y": TensorProto.BOOL}, 13, constants))


def test_nodes_of_the_same_name_do_not_reach_onnxruntime() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="a"), helper.make_node("Neg", ["h"], ["y"], name="a"),
    ]  # fmt: skip

    assert right_or_refused(model(nodes, (3, 5), {"y": TensorProto.FLOAT}, 17))


def dilated() -> Graph:
    """Return a convolution that the standard allows and onnxruntime does not take."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", dilations=[2, 2], kernel_shape=[3, 3])
    weight = {"w": np.full((4, 2, 3, 3), 0.5, np.float32)}
    return model([node], (1, 2, 9, 9), {"y": TensorProto.FLOAT}, 17, weight)


def test_what_onnxruntime_does_not_take_is_told_with_its_reason_and_the_node() -> None:
    with pytest.raises(WorkloadError, match=r"onnxruntime rejects node 'y' \(Conv\): .*Dilation not supported"):
        outcomes(unfused_plan(dilated()))


def test_measuring_it_says_so_once(capfd: pytest.CaptureFixture[str]) -> None:
    plan = unfused_plan(dilated())
    with pytest.raises(MeasureError, match=r"onnxruntime rejects node 'y' \(Conv\): .*Dilation not supported"):
        measure_plan(Job(plan, loops_of(plan), LANES, 1), "unfused")

    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(("element", "dtype"), [(TensorProto.FLOAT16, "fp16"), (TensorProto.DOUBLE, "fp64")])
def test_a_tensor_of_another_precision_is_named(element: int, dtype: str) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], name="other", to=element), helper.make_node("Relu", ["c"], ["h"]),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]  # fmt: skip
    graph = model(nodes, (3, 5), {"y": TensorProto.FLOAT}, 17)

    for each in (graph, graph.with_dtype("fp32")):
        with pytest.raises(WorkloadError, match=rf"tensor 'c' of node 'other' \(Cast\) is {dtype}; only fp32"):
            executable(each)
