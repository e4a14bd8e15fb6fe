"""Predicted times written into the metadata of an ONNX file's nodes, where viewers such as Netron show them.

Nodes have metadata from version 10 of ONNX's intermediate representation on. Of an older file, the metadata of the
model hold everything, and a node's documentation its prediction, if the node has none of its own.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError, Message

from dsascape.wording import count
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.reimport import naming
from dsascape.workloads.walk_state import node_name

PREFIX = "dsascape."
"""Beginning of the keys of all metadata written here; earlier ones are replaced."""
_NODES_HAVE_METADATA = 10
"""First version of the intermediate representation in which nodes have metadata."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted time of one layer, and the operators that it computes."""

    layer: str
    """Name of the layer in its plan, such as ``#41 Conv+Relu 512x7x7``."""
    seconds: float
    time: str
    """Predicted time as text with a unit."""
    operators: tuple[tuple[str, tuple[str, ...]], ...]
    """Pairs (name, outputs) of the layer's operators."""


@dataclass(frozen=True, slots=True)
class Annotated:
    """An annotated file: its content, and how many of its nodes have a prediction."""

    content: bytes
    nodes: int
    missing: tuple[str, ...]
    """Layers none of whose operators is a node of the file, as rewriting makes them."""


def annotated(content: bytes, where: str, predictions: Sequence[Prediction], facts: dict[str, str]) -> Annotated:
    """Return the ONNX file ``content`` with predictions at its nodes, and ``facts`` about the run at the model.

    Every node of a layer has the layer's name and time, as ``dsascape.layer`` and ``dsascape.layer_seconds``; only the
    first of them has the time as ``dsascape.seconds``, so that these add up to the time of all layers. Raises
    ``WorkloadError`` for content that is no ONNX file.
    """
    model = onnx.ModelProto()
    with naming(where):
        try:
            model.ParseFromString(content)
        except Exception as error:
            raise WorkloadError(f"{where}: is not an ONNX model, or is cut short ({error})") from error
    _without_ours(model)
    by_output = {name: node for node in model.graph.node for name in node.output if name}
    by_name = {node_name(node): node for node in model.graph.node}
    told: dict[int, Prediction] = {}
    missing = []
    at_nodes = model.ir_version >= _NODES_HAVE_METADATA
    places = {id(node): number for number, node in enumerate(model.graph.node)}
    for prediction in predictions:
        nodes: dict[int, onnx.NodeProto] = {}
        for name, outputs in prediction.operators:
            node = next((by_output[each] for each in outputs if each in by_output), None)
            node = node or next((by_name[each] for each in _prefixes(name) if each in by_name), None)
            if node is not None and places[id(node)] not in told:
                nodes[places[id(node)]] = node
        told |= dict.fromkeys(nodes, prediction)
        if prediction.operators and not nodes:
            missing.append(prediction.layer)
        for number, node in enumerate(nodes.values()):
            _write(node, prediction, len(nodes), is_first=not number, at_nodes=at_nodes)
    layers = [
        {"layer": each.layer, "seconds": each.seconds, "nodes": [name for name, _ in each.operators]}
        for each in predictions
    ]
    for key, value in {**facts, "layers": json.dumps(layers)}.items():
        model.metadata_props.add(key=f"{PREFIX}{key}", value=value)
    return Annotated(model.SerializeToString(), len(told), tuple(missing))


def external_files(content: bytes) -> frozenset[str]:
    """Return the files, by paths relative to the ONNX file ``content``, that have values of its tensors.

    Raises ``WorkloadError`` for what is no ONNX file.
    """
    try:
        tensors = list(_tensors(onnx.load_from_string(content)))
    except DecodeError as error:
        raise WorkloadError(f"is not an ONNX model ({error})") from error
    external = [each for each in tensors if each.data_location == onnx.TensorProto.EXTERNAL]
    return frozenset([entry.value for each in external for entry in each.external_data if entry.key == "location"])


def _tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of a model: its initializers, and those of attributes, branches and functions."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in [value] if isinstance(value, Message) else value:
                yield from _tensors(each)


def _write(node: onnx.NodeProto, prediction: Prediction, nodes: int, *, is_first: bool, at_nodes: bool) -> None:
    with_others = f" ({count(nodes, 'node')})" if nodes > 1 else ""
    text = f"{prediction.time} in kernel {prediction.layer}{with_others}"
    if not at_nodes:
        node.doc_string = node.doc_string or f"{PREFIX}{text}"
        return
    values = {"time": text, "layer": prediction.layer, "layer_seconds": repr(prediction.seconds)}
    values |= {"seconds": repr(prediction.seconds)} if is_first else {}
    for key, value in values.items():
        node.metadata_props.add(key=f"{PREFIX}{key}", value=value)


def _without_ours(model: onnx.ModelProto) -> None:
    """Remove what an earlier run wrote into the file."""
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if not entry.key.startswith(PREFIX)]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        if node.doc_string.startswith(PREFIX):
            node.doc_string = ""
    kept = [entry for entry in model.metadata_props if not entry.key.startswith(PREFIX)]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)


def _prefixes(name: str) -> Iterator[str]:
    """Yield the name of an operator, then those of the nodes that it may be a part of: written out, or repeated."""
    yield name
    yield name.rpartition("#")[0]
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
