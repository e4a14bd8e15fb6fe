"""Einsum with several operands is evaluated two operands at a time, with numpy's result."""

import itertools
import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Index
from dsascape.workloads.onnx_file import parse_onnx
from dsascape.workloads.onnx_import import graph_from_file
from dsascape.workloads.reimport import ImportOptions


def _graph(equation: str, shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> Graph:
    names = [f"x{place}" for place in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)]
    model = helper.make_model(
        helper.make_graph([node], "g", given, outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    assert isinstance(model, onnx.ModelProto)
    return graph_from_file(parse_onnx(model.SerializeToString(), "e.onnx"), "e", ImportOptions())


def _place(indices: tuple[Index, ...], point: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i.offset + sum(point[loop] * factor for loop, factor in i.terms) for i in indices)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ij,jk,kl", [(2, 3), (3, 4), (4, 2)]),
        ("ii,ij,jk->k", [(3, 3), (3, 2), (2, 4)]),
        ("...ij,...jk,kl->...il", [(2, 2, 3), (2, 3, 2), (2, 3)]),
        ("...ij,...jk,kl->...il", [(1, 2, 3), (2, 3, 2), (2, 3)]),
        ("i,i,i->i", [(3,), (3,), (3,)]),
        ("i,j,k,l->", [(2,), (3,), (2,), (3,)]),
        ("ab,bc,cd,de,ea->", [(2, 3), (3, 2), (2, 3), (3, 2), (2, 2)]),
        ("i,j,jk->ik", [(2,), (1,), (1, 3)]),
        ("ij,ij->i", [(2, 3), (2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
    ],
)
def test_nests_compute_what_numpy_does(equation: str, shapes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(1)
    values = {f"x{place}": random.integers(-3, 4, shape).astype(float) for place, shape in enumerate(shapes)}
    wanted = np.einsum(equation, *values.values())
    (op,) = _graph(equation, shapes, wanted.shape).ops
    assert all(len(nest.reads) <= 2 for nest in op.nests)
    for nest in op.nests:
        made = np.zeros(nest.write.shape)
        for point in itertools.product(*(range(loop.extent) for loop in nest.loops)):
            factors = [values[read.tensor][_place(read.indices, point)] for read in nest.reads]
            made[_place(nest.write.indices, point)] += math.prod(factors)
        values[nest.write.tensor] = made
    np.testing.assert_array_equal(values["y"], wanted)


def test_a_chain_of_three_matrices_takes_two_products() -> None:
    (op,) = _graph("ij,jk,kl->il", [(16, 16)] * 3, (16, 16)).ops
    assert sum(math.prod(loop.extent for loop in nest.loops) for nest in op.nests) == 2 * 16**3
