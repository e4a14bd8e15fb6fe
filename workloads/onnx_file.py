"""Parsing an ONNX file without trusting it: no external data, nothing evaluated."""

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
"""In the metadata of stripped files: the names of all weights, as a JSON list, or separated by commas."""
INPUT_RANGES_KEY = "input_ranges"
"""In the metadata of the zoo's files: between which numbers an input lies."""
LARGEST_KNOWN_VALUE = 65_536
"""Constants of more elements keep their shape only."""


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A parsed model with its weights' values dropped."""

    where: str
    """What messages call it."""
    model: onnx.ModelProto
    constants: Mapping[str, Array]
    """Initializers small enough to be kept by value."""
    weights: frozenset[str]
    """Initializers, and typed inputs that stand for weights stripped from the file."""
    opset: int


def parse_onnx(data: bytes, where: str, *, stripped: bool = False) -> OnnxFile:
    """Return the model in ``data``; raise ``WorkloadError`` naming ``where`` if it is not one.

    ``stripped``: the file was stripped of its weights' values by this project, and lists these weights in its metadata.
    A file that also has the other entry of the zoo's files is taken to be such a one; else metadata mean nothing here.

    Raises ``MemoryError`` where there is no room for it.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        bytearray(len(data))  # the parser says the same when memory is short, which this says by its name
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
    if tensor.data_location == TensorProto.EXTERNAL or math.prod(tensor.dims) > LARGEST_KNOWN_VALUE:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, RuntimeError, KeyError):
        return None
