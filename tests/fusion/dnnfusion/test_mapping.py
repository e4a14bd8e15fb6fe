"""Mapping types derived from access maps agree with the paper's Table 2."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from dsascape.fusion.dnnfusion import MappingType, mapping_type
from tests.workloads.onnx_models import model, read

O2O, REORGANIZE, SHUFFLE, O2M, M2M = MappingType
IMAGE = [2, 8, 6, 6]
ROWS = [2, 3, 4]
_LAST_WITH_UPSAMPLE = 9
"""The opset; the next one has Resize instead."""


def type_of(kind: str, shapes: list[list[int]], known: dict[str, Any] | None = None, **attributes: Any) -> MappingType:
    """Return the type of one operator on activations of ``shapes``; ``known`` are further inputs with values."""
    names = [f"x{number}" for number in range(len(shapes))]
    known = known or {}
    outputs = attributes.pop("outputs", 1)
    written = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(kind, [*names, *known], written, **attributes)
    inputs = dict(zip(names, shapes, strict=True))
    graph = read(model(node, inputs=inputs, outputs=tuple(written), **known))
    return mapping_type(graph, graph.ops[-1])


def floats(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.ones(shape, np.float32)


UNARY = (
    "Asin", "Ceil", "Clip", "Cos", "Erf", "Exp", "LeakyRelu", "Log", "Reciprocal", "Relu", "Round", "Sigmoid", "Sin",
    "Sqrt", "Tanh",
)  # fmt: skip


class TestTable2OneToOne:
    @pytest.mark.parametrize("kind", UNARY)
    def test_of_one_operand(self, kind: str) -> None:
        assert type_of(kind, [ROWS]) is O2O

    @pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Greater", "PRelu"])
    def test_of_two_operands_of_one_size(self, kind: str) -> None:
        assert type_of(kind, [ROWS, ROWS]) is O2O

    def test_cast(self) -> None:
        assert type_of("Cast", [ROWS], to=10) is O2O

    def test_where_and_not(self) -> None:
        nodes = [
            helper.make_node("Greater", ["a", "b"], ["more"]),
            helper.make_node("Not", ["more"], ["less"]),
            helper.make_node("Where", ["less", "a", "b"], ["y"]),
        ]
        graph = read(model(*nodes, inputs={"a": ROWS, "b": ROWS}))
        assert [mapping_type(graph, op) for op in graph.ops] == [O2O, O2O, O2O]

    def test_a_batch_normalisation_whose_parameters_are_no_inputs(self) -> None:
        known = {name: floats(8) for name in ("scale", "bias", "mean", "variance")}
        assert type_of("BatchNormalization", [IMAGE], known) is O2O

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_concat(self, axis: int) -> None:
        assert type_of("Concat", [ROWS, ROWS], axis=axis) is O2O

    def test_slice(self) -> None:
        cut = {"starts": np.array([1]), "ends": np.array([3]), "axes": np.array([2])}
        assert type_of("Slice", [ROWS], cut) is O2O

    def test_split(self) -> None:
        assert type_of("Split", [[2, 4, 4]], axis=1, num_outputs=2, outputs=2) is O2O


class TestTable2OneToMany:
    @pytest.mark.parametrize("kind", ["Add", "Mul", "Greater"])
    def test_elementwise_operators_that_broadcast(self, kind: str) -> None:
        assert type_of(kind, [ROWS, [2, 3, 1]]) is O2M

    def test_expand(self) -> None:
        assert type_of("Expand", [[2, 1, 4]], {"shape": np.array([2, 3, 4])}) is O2M

    def test_gather_with_indices_that_data_chooses(self) -> None:
        nodes = [helper.make_node("Cast", ["i"], ["ints"], to=7), helper.make_node("Gather", ["x", "ints"], ["y"])]
        graph = read(model(*nodes, inputs={"x": ROWS, "i": [5]}))
        assert mapping_type(graph, graph.ops[-1]) is O2M

    def test_resize_by_nearest_neighbours(self) -> None:
        scales = np.array([1, 1, 2, 2], np.float32)
        assert type_of("Resize", [IMAGE], {"roi": floats(0), "scales": scales}, mode="nearest") is O2M

    def test_upsample_the_resize_of_earlier_opsets(self) -> None:
        scales = np.array([1, 1, 2, 2], np.float32)
        built = model(helper.make_node("Upsample", ["x", "scales"], ["y"]), inputs={"x": IMAGE}, scales=scales)
        built.opset_import[0].version = _LAST_WITH_UPSAMPLE
        graph = read(built)

        assert graph.tensors["y"].shape == (2, 8, 12, 12)
        assert mapping_type(graph, graph.ops[-1]) is O2M


class TestTable2ManyToMany:
    @pytest.mark.parametrize("kind", ["AveragePool", "MaxPool"])
    def test_pooling(self, kind: str) -> None:
        assert type_of(kind, [IMAGE], kernel_shape=[2, 2], strides=[2, 2]) is M2M

    @pytest.mark.parametrize("kernel", [1, 3])
    def test_convolutions(self, kernel: int) -> None:
        assert type_of("Conv", [IMAGE], {"w": floats(4, 8, kernel, kernel)}) is M2M
        assert type_of("ConvTranspose", [IMAGE], {"w": floats(8, 4, kernel, kernel)}) is M2M
        assert type_of("Conv", [IMAGE], {"w": floats(8, 1, 3, 3)}, group=8) is M2M

    def test_products_of_matrices(self) -> None:
        assert type_of("Gemm", [[2, 3], [3, 4]]) is M2M
        assert type_of("MatMul", [[2, 3], [3, 4]]) is M2M
        assert type_of("Einsum", [[2, 3], [3, 4]], equation="ij,jk->ik") is M2M

    def test_running_sums(self) -> None:
        assert type_of("CumSum", [ROWS], {"axis": np.array(1)}) is M2M

    def test_normalisations_over_the_image(self) -> None:
        assert type_of("InstanceNormalization", [IMAGE], {"scale": floats(8), "bias": floats(8)}) is M2M
        assert type_of("Softmax", [ROWS]) is M2M

    @pytest.mark.parametrize("kind", ["ReduceProd", "ReduceMean", "ReduceSum", "ReduceMax"])
    def test_reductions(self, kind: str) -> None:
        assert type_of(kind, [ROWS], {"axes": np.array([1])}) is M2M

    def test_an_interpolation_mixes_elements(self) -> None:
        scales = np.array([1, 1, 2, 2], np.float32)
        assert type_of("Resize", [IMAGE], {"roi": floats(0), "scales": scales}, mode="linear") is M2M


class TestTable2Movements:
    def test_reorganize(self) -> None:
        assert type_of("Reshape", [ROWS], {"shape": np.array([6, 4])}) is REORGANIZE
        assert type_of("Flatten", [ROWS]) is REORGANIZE

    def test_reshapes_without_common_factors_reorganize_too(self) -> None:
        assert type_of("Reshape", [[4, 6]], {"shape": np.array([6, 4])}) is REORGANIZE
        assert type_of("Reshape", [[2, 3, 5]], {"shape": np.array([5, 6])}) is REORGANIZE

    def test_dimensions_of_one_element_come_and_go_one_to_one(self) -> None:
        assert type_of("Unsqueeze", [ROWS], {"axes": np.array([1])}) is O2O
        assert type_of("Squeeze", [[2, 1, 4]], {"axes": np.array([1])}) is O2O

    def test_shuffle(self) -> None:
        assert type_of("Transpose", [ROWS], perm=[0, 2, 1]) is SHUFFLE
        assert type_of("SpaceToDepth", [IMAGE], blocksize=2) is SHUFFLE
        assert type_of("DepthToSpace", [IMAGE], blocksize=2) is SHUFFLE


def test_the_more_complex_pair_decides() -> None:
    assert type_of("Add", [ROWS, [1, 1, 1]]) is O2M
    assert O2O < REORGANIZE < SHUFFLE < O2M < M2M


def test_names_are_the_papers() -> None:
    assert list(map(str, MappingType)) == ["One-to-One", "Reorganize", "Shuffle", "One-to-Many", "Many-to-Many"]
