"""Values of transformed weights and of the matrices of transforms, for convolutions that are written out."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from dsascape.workloads.executable import Executable
from dsascape.workloads.nest_by_nest import PATCHES, Algorithms, WrittenOut
from dsascape.workloads.operators.registry import Array
from dsascape.workloads.winograd.operators import TAPS, named
from dsascape.workloads.winograd.transforms import Matrix, transforms


def executable_written_out(executable: Executable, out: WrittenOut, algorithms: Algorithms) -> Executable:
    """Return ``executable`` with the convolutions of ``algorithms`` as in the network written out.

    Weights are transformed where Winograd's algorithm needs it: products of the transformation are added up in double
    precision and rounded once.
    """
    graph, sizes = executable.graph, dict(algorithms)
    nodes: list[onnx.NodeProto] = []
    values = dict(executable.values)
    for position, node in enumerate(executable.nodes):
        if position not in sizes:
            nodes.append(node)
            continue
        op = graph.ops[position]
        parts = [out.analysis.graph.ops[part] for part in out.ops_of[position]]
        nodes += [onnx.NodeProto(op_type=part.kind, input=part.inputs, output=part.outputs) for part in parts]
        if sizes[position] == PATCHES:
            continue
        names, shape = named(op, sizes[position]), op.nests[0].write.shape
        values |= constants(names.size, values[names.weight], shape[2:], names.transformed, names.matrices)
    return replace(executable, graph=out.analysis.graph, nodes=tuple(nodes), values=values)


def constants(
    size: int, weight: Array, image: tuple[int, ...], transformed: str, matrices: tuple[str, str, str]
) -> Mapping[str, Array]:
    """Return the transformed weight of (output channels, channels, 3, 3), and the matrices for an image of that size.

    ``matrices`` are names of the one of data, that of the results' columns and that of their rows.
    """
    exact = transforms(size, TAPS)
    own = as_array(exact.weight)
    product = np.einsum("pi,ocij,qj->pqoc", own, weight.astype(np.float64), own)
    height, width = image
    of_data, of_columns, of_rows = matrices
    output = as_array(exact.output)
    return {
        transformed: product.astype(weight.dtype),
        of_data: as_array(exact.data).astype(weight.dtype),
        of_columns: output[np.arange(width) % size].astype(weight.dtype),
        of_rows: output[np.arange(height) % size].astype(weight.dtype),
    }


def as_array(matrix: Matrix) -> Array:
    """Return a matrix of fractions in double precision."""
    return np.array([[float(each) for each in row] for row in matrix])
