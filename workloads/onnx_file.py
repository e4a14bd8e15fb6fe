"""Parser of untrusted ONNX files: reads no external data and evaluates nothing."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

from dsascape.workloads.functions import expanded
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.operators.registry import Array

WEIGHTS_KEY = "weights"
"""Metadata key of stripped files: names of all weights, as a JSON list or separated by commas."""
INPUT_RANGES_KEY = "input_ranges"
"""Metadata key of the zoo's files: value ranges of inputs."""
LARGEST_KNOWN_VALUE = 65_536
"""Elements of a constant at most whose value is kept; a larger one keeps its shape only."""
_LARGEST_KNOWN_MASK = 2**22
"""Elements of a boolean constant at most whose value is kept: a mask of 2,048 x 2,048 (`workloads.mask_bands`)."""


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A parsed model, the values of its small constants, and the names of its weights."""

    where: str
    """Name of the file in messages."""
    model: onnx.ModelProto
    constants: Mapping[str, Array]
    """Values of the initializers that are small enough, by name."""
    weights: frozenset[str]
    """Names of initializers, and of typed inputs that stand for weights stripped from the file."""
    opset: int


def parse_onnx(data: bytes, where: str, *, stripped: bool = False) -> OnnxFile:
    """Return the model in ``data``; raise ``WorkloadError`` naming ``where`` if it is not one.

    ``stripped``: the file was stripped of its weights' values by this project, and lists these weights in its metadata.
    A file with the zoo's other metadata key counts as stripped too; metadata are ignored otherwise.

    Raises ``MemoryError`` if memory runs out.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        bytearray(len(data))  # short memory gives the same parser error; this allocation raises MemoryError instead
        raise WorkloadError(f"{where}: is not an ONNX model, or is cut short ({error})") from error
    if not model.graph.node:
        raise WorkloadError(f"{where}: is not an ONNX model, or has no operators")
    model = expanded(model, where)
    newest = onnx.defs.onnx_opset_version()
    standard = any(node.domain in ("", "ai.onnx") for node in model.graph.node)
    given = (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    opset = next(given, 0 if standard else newest)
    if not 1 <= opset <= newest:
        raise WorkloadError(f"{where}: uses opset {opset} of the ONNX operators; this reads 1 to {newest}")
    try:
        constants, names = _constants(model, stripped=stripped)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"{where}: is malformed ({error})") from error
    return OnnxFile(where, model, constants, frozenset(names), opset)


def layers_in(data: bytes) -> int:
    """Return how many nodes the graph of an ONNX file has, its Constants not counted."""
    return sum(node.op_type != "Constant" for node in onnx.load_from_string(data).graph.node)


def _constants(model: onnx.ModelProto, *, stripped: bool) -> tuple[dict[str, Array], set[str]]:
    """Return the values of the small initializers, and the names of all weights."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    listed = metadata.get(WEIGHTS_KEY, "") if stripped or INPUT_RANGES_KEY in metadata else ""
    constants: dict[str, Array] = {}
    names = set(json.loads(listed)) if listed.startswith("[") else set(filter(None, listed.split(",")))
    for tensor in model.graph.initializer:
        names.add(tensor.name)
        value = tensor_value(tensor)
        if value is not None:
            constants[tensor.name] = value
    for sparse in model.graph.sparse_initializer:
        names.add(sparse.values.name)
    return constants, names


def tensor_value(tensor: TensorProto) -> Array | None:
    """Return a small tensor's value; None where it is large, external, or its data does not fit its shape."""
    most = _LARGEST_KNOWN_MASK if tensor.data_type == TensorProto.BOOL else LARGEST_KNOWN_VALUE
    if tensor.data_location == TensorProto.EXTERNAL or math.prod(tensor.dims) > most:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, RuntimeError, KeyError):
        return None
