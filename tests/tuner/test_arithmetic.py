"""Generated code for one element computes the operator's value, for positive and negative inputs."""

from collections.abc import Callable

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, unfused_plan
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from tests.graphs import Net
from tests.tuner.runs import deviations

pytestmark = pytest.mark.tvm


def correct(net: Net, *outputs: str, fused: bool = False) -> None:
    graph = net.graph(*outputs, dtype="fp32")
    found = deviations(fixed_pattern_plan(graph) if fused else unfused_plan(graph))
    assert {name: by for name, by in found.items() if by > KERNEL_TOLERANCE} == {}


def both_signs(net: Net) -> str:
    """Return a tensor of elements between about -1 and 1."""
    return net.binary("Sub", net.input(2, 7, 12), net.weight(7, 12))


@pytest.mark.parametrize("kind", ["Sign", "Round", "Tan", "Asin", "Acos", "Atan", "Celu", "Selu",
                                  "ThresholdedRelu", "Shrink", "Elu", "HardSigmoid", "Softsign", "IsNaN"])  # fmt: skip
def test_a_function_of_one_number(kind: str) -> None:
    net = Net()
    x = net.unary("Tanh", both_signs(net))
    correct(net, net.unary("Not" if kind == "IsNaN" else "Identity", net.unary(kind, x)), fused=True)


def test_parameters_of_functions_are_those_of_the_node() -> None:
    net = Net()
    x = both_signs(net)
    shape = net.shape[x]
    correct(
        net,
        net.op("Celu", [x], shape, alpha=0.5),
        net.op("Selu", [x], shape, alpha=2.0, gamma=0.5),
        net.op("Shrink", [x], shape, lambd=0.25, bias=0.125),
        net.op("ThresholdedRelu", [x], shape, alpha=0.25),
        net.op("Mod", [x, net.weight(12)], shape, fmod=1),
    )


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum"])
def test_a_reduction_of_rows_or_columns(kind: str) -> None:
    net = Net()
    x = net.input(2, 7, 12) if kind == "ReduceLogSum" else both_signs(net)
    rows = net.op(kind, [x, net.integers(-1)], (2, 7, 1), keepdims=1)
    correct(net, rows, net.op(kind, [x, net.integers(0, 1)], (12,), keepdims=0))


def rows(kind: str, **attributes: int) -> Callable[[Net, str], str]:
    return lambda net, x: net.op(kind, [x], net.shape[x], **attributes)


NORMALISATIONS: dict[str, Callable[[Net, str], str]] = {
    "logarithm of a softmax": rows("LogSoftmax", axis=-1),
    "length": rows("LpNormalization", axis=-1),
    "sum of magnitudes": rows("LpNormalization", axis=1, p=1),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_normalisation_of_rows(name: str) -> None:
    net = Net()
    correct(net, NORMALISATIONS[name](net, both_signs(net)))


def test_normalisations_of_images() -> None:
    net = Net()
    x = net.conv(net.input(1, 6, 9, 7), 6)
    shape = net.shape[x]
    correct(
        net,
        net.op("MeanVarianceNormalization", [x], shape),
        net.op("LRN", [x], shape, size=3, alpha=0.5, beta=0.5, bias=2.0),
        net.op("LRN", [x], shape, size=5),
        net.op("GlobalLpPool", [x], (1, 6, 1, 1), p=3),
        net.op("LpPool", [x], (1, 6, 4, 3), kernel_shape=[3, 3], strides=[2, 2], p=2),
        net.op("LpPool", [x], (1, 6, 9, 7), kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=1),
    )


EQUATIONS: dict[str, tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]] = {
    "bij,bkj->bik": (((2, 7, 12), (2, 5, 12)), (2, 7, 5)),
    "btd,hdk->bhtk": (((2, 7, 12), (3, 12, 5)), (2, 3, 7, 5)),
    "...ij,...jk->...ik": (((2, 3, 4, 6), (2, 3, 6, 5)), (2, 3, 4, 5)),
    "i,j->ij": (((6,), (5,)), (6, 5)),
    "bij->bi": (((2, 7, 12),), (2, 7)),
    "bii->bi": (((2, 7, 7),), (2, 7)),
    "bi,ij,bj->b": (((2, 7), (7, 5), (2, 5)), (2,)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_a_sum_by_equation(equation: str) -> None:
    net = Net()
    operands, result = EQUATIONS[equation]
    correct(net, net.op("Einsum", [net.input(*shape) for shape in operands], result, equation=equation))


def resized(net: Net, x: str, size: tuple[int, int], **attributes: str | float) -> str:
    sizes = net.integers(*net.shape[x][:2], *size)
    return net.op("Resize", [x, "", "", sizes], (*net.shape[x][:2], *size), **attributes)


@pytest.mark.parametrize("transform", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_image_of_another_size(mode: str, transform: str) -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 9, 7), 4)
    how = {"mode": mode, "coordinate_transformation_mode": transform}
    correct(net, resized(net, x, (18, 14), **how), resized(net, x, (5, 11), **how), resized(net, x, (9, 3), **how))


def test_how_steep_cubic_weights_are_is_the_nodes() -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 9, 7), 4)
    correct(net, resized(net, x, (13, 10), mode="cubic", cubic_coeff_a=-0.5))


def test_interpolation_is_computed_with_what_follows_it() -> None:
    net = Net()
    x = net.relu(net.conv(net.input(1, 3, 9, 7), 4))
    correct(net, net.add(resized(net, x, (18, 14), mode="linear"), net.weight(4, 18, 14)), fused=True)


def test_elements_that_an_index_in_memory_chooses() -> None:
    net = Net()
    x = both_signs(net)
    places = net.integers(3, -1, 0, 5)
    pairs = net.op("Reshape", [places, net.integers(2, 2)], (2, 2))
    single = net.op("Reshape", [places, net.integers(2, 2, 1)], (2, 2, 1))
    chosen = net.op("Cast", [net.op("Mul", [net.input(2, 7, 12), net.scales(6.9)], (2, 7, 12))], (2, 7, 12), to=7)
    correct(
        net,
        net.op("GatherElements", [x, chosen], (2, 7, 12), axis=2),
        net.op("GatherElements", [x, chosen], (2, 7, 12), axis=1),
        net.op("GatherND", [net.transpose(x, 1, 2, 0), pairs], (2, 2)),
        net.op("GatherND", [x, single], (2, 2, 12), batch_dims=1),
    )


def test_triangles_of_matrices() -> None:
    net = Net()
    x = both_signs(net)
    correct(net, net.op("Trilu", [x], (2, 7, 12)), net.op("Trilu", [x, net.integers(2)], (2, 7, 12), upper=0))


def test_running_sums() -> None:
    net = Net()
    x = both_signs(net)
    axes = [net.integers(axis) for axis in (0, 1, -1)]
    correct(
        net,
        net.op("CumSum", [x, axes[1]], (2, 7, 12)),
        net.op("CumSum", [x, axes[2]], (2, 7, 12), reverse=1),
        net.op("CumSum", [x, axes[0]], (2, 7, 12), exclusive=1),
        net.op("CumSum", [x, axes[2]], (2, 7, 12), exclusive=1, reverse=1),
    )


def test_one_of_several() -> None:
    net = Net()
    chosen = net.op("Cast", [net.op("Mul", [net.input(2, 7), net.scales(4.9)], (2, 7))], (2, 7), to=7)
    of_last = net.op("OneHot", [chosen, net.integers(5), net.scales(0.25, 2.0)], (2, 7, 5))
    correct(net, of_last, net.op("OneHot", [chosen, net.integers(5), net.scales(0.0, 1.0)], (2, 5, 7), axis=1))
