"""Removal of the weights from an ONNX model, keeping everything that determines what is computed.

Every float tensor above ``KEPT_ELEMENTS`` elements becomes a typed graph input, listed in
``metadata_props['weights']``. Integer and boolean tensors and small float ones keep their values: shape
arithmetic, Resize scales, Clip bounds and Gather indices need them. An importer treats the listed inputs as
constants.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from dsascape.wording import count
from dsascape.workloads.onnx_file import INPUT_RANGES_KEY, WEIGHTS_KEY

KEPT_ELEMENTS = 64
"""Elements of a float tensor at most that keeps its values."""

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)

TensorType = tuple[int, tuple[int, ...]]
"""ONNX element type and static shape."""


class NotStaticError(ValueError):
    """A graph has a tensor whose shape neither inference nor a run determines."""


def strip_weights(
    model: ModelProto,
    examples: Sequence[np.ndarray[Any, Any]],
    recorded: Mapping[str, TensorType],
    record_all: bool = False,
) -> ModelProto:
    """Return ``model`` without weights and with every shape static.

    ``examples`` are the network's inputs in order; they pin dynamic dimensions. ``recorded`` holds types
    known from the exporter or from a run. They are written into the file where shape inference cannot find
    them, or everywhere with ``record_all``.
    """
    stripped = ModelProto()
    stripped.CopyFrom(model)
    graph = stripped.graph
    _drop_annotations(graph)
    stripped.ClearField("metadata_props")
    stripped.ClearField("functions")
    _constants_to_initializers(graph)
    ranges = _pin_inputs(graph, examples)
    weights = _initializers_to_inputs(graph)
    for output in graph.output:
        if output.name in recorded:
            output.CopyFrom(_typed(output.name, recorded[output.name]))
    graph.ClearField("value_info")
    wanted = set(_produced(graph)) if record_all else set(_not_static(stripped))
    graph.value_info.extend(_typed(name, recorded[name]) for name in sorted(wanted) if name in recorded)
    stripped.metadata_props.add(key=WEIGHTS_KEY, value=",".join(weights))
    stripped.metadata_props.add(key=INPUT_RANGES_KEY, value=json.dumps(ranges, sort_keys=True))
    onnx.checker.check_model(stripped, full_check=True)
    if unknown := _not_static(stripped):
        raise NotStaticError(f"{count(len(unknown), 'tensor')} have no static shape, the first is {unknown[0]!r}")
    return stripped


def declared_types(model: ModelProto) -> dict[str, TensorType]:
    """Return the static types that the exporter wrote into ``model``."""
    types = ((value.name, _static_type(value)) for value in [*model.graph.value_info, *model.graph.output])
    return {name: tensor_type for name, tensor_type in types if tensor_type is not None}


def weight_names(model: ModelProto) -> list[str]:
    """Return the names of the graph inputs that are weights."""
    listed = next((prop.value for prop in model.metadata_props if prop.key == WEIGHTS_KEY), "")
    return [name for name in listed.split(",") if name]


def _drop_annotations(graph: GraphProto) -> None:
    """Remove the stack traces that exporters embed; they outweigh the graph itself."""
    for item in [graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _drop_annotations(attribute.g)


def _constants_to_initializers(graph: GraphProto) -> None:
    """Turn Constant nodes with a large float tensor into initializers, so that they are stripped too."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        value = (
            next((a.t for a in node.attribute if a.name == "value"), None)
            if node.op_type == "Constant"
            else None
        )
        if value is not None and _is_weight(value):
            tensor = graph.initializer.add()
            tensor.CopyFrom(value)
            tensor.name = node.output[0]
        else:
            nodes.append(NodeProto.FromString(node.SerializeToString()))
    graph.ClearField("node")
    graph.node.extend(nodes)


def _pin_inputs(graph: GraphProto, examples: Sequence[np.ndarray[Any, Any]]) -> dict[str, list[int]]:
    """Give the inputs the shapes of ``examples``; return the value range of the integer ones."""
    ranges: dict[str, list[int]] = {}
    for graph_input, example in zip(graph.input, examples, strict=True):
        element_type = graph_input.type.tensor_type.elem_type
        graph_input.CopyFrom(_typed(graph_input.name, (element_type, example.shape)))
        if example.dtype.kind in "iu":
            ranges[graph_input.name] = [int(example.min()), int(example.max())]
    return ranges


def _initializers_to_inputs(graph: GraphProto) -> list[str]:
    """Turn the large float initializers into graph inputs and return their names."""
    weights = [tensor for tensor in graph.initializer if _is_weight(tensor)]
    kept = [tensor for tensor in graph.initializer if not _is_weight(tensor)]
    graph.input.extend(_typed(tensor.name, (tensor.data_type, tuple(tensor.dims))) for tensor in weights)
    names = [tensor.name for tensor in weights]
    copies = [TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    graph.ClearField("initializer")
    graph.initializer.extend(copies)
    return names


def _is_weight(tensor: TensorProto) -> bool:
    return tensor.data_type in _FLOATS and math.prod(tensor.dims) > KEPT_ELEMENTS


def _typed(name: str, tensor_type: TensorType) -> ValueInfoProto:
    element_type, shape = tensor_type
    return helper.make_tensor_value_info(name, element_type, list(shape))


def _produced(graph: GraphProto) -> Iterator[str]:
    """Yield the tensors that nodes write, except graph outputs."""
    outputs = {output.name for output in graph.output}
    for node in graph.node:
        yield from (name for name in node.output if name and name not in outputs)


def _not_static(model: ModelProto) -> list[str]:
    """Return the tensors written by nodes whose shape inference cannot determine."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    static = {v.name for v in [*inferred.value_info, *inferred.output] if _static_type(v) is not None}
    written = (name for node in inferred.node for name in node.output if name)
    return [name for name in written if name not in static]


def _static_type(value: ValueInfoProto) -> TensorType | None:
    tensor_type = value.type.tensor_type
    if not tensor_type.HasField("shape"):
        return None
    if not all(dim.HasField("dim_value") for dim in tensor_type.shape.dim):
        return None
    return tensor_type.elem_type, tuple(dim.dim_value for dim in tensor_type.shape.dim)
