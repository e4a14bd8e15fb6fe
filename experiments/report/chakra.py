"""Execution traces in the protobuf format of MLCommons Chakra, which ASTRA-sim replays.

A trace is a sequence of messages, each behind its length as a varint: a ``GlobalMetadata``, then one ``Node`` for each
layer. The schema is Chakra's ``schema/protobuf/et_def.proto`` (github.com/mlcommons/chakra, commit 6dc63e1), of which
the messages and fields needed here are described below; the attributes are those that Chakra's feeder reads
(``src/feeder/et_feeder_node.cpp``) and ASTRA-sim's workload layer uses (``astra-sim/workload/Workload.cc``). Durations
are whole microseconds there; they are rounded so that their sums are right to a microsecond.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from dsascape.experiments.point.operator_times import Operand, OperatorTime, ShapeTimes
from dsascape.hw_models.text.whole_file import write_with

VERSION = "0.0.4"
"""Version in the metadata of a trace, as Chakra's own generator writes it."""
COMP_NODE = 4
"""Type of a node that computes, in Chakra's enumeration."""
_PACKAGE = "ChakraProtoMsg"
_OFF_CHIP = ("ddr", "dram")
"""Memories whose bytes are a node's ``tensor_size``, which ASTRA-sim's roofline sets against a local memory."""
_MICROSECONDS = 1e6
_FIELD = descriptor_pb2.FieldDescriptorProto
_ATTRIBUTE_VALUES = {
    "double_val": (3, _FIELD.TYPE_DOUBLE), "int64_val": (9, _FIELD.TYPE_INT64), "uint64_val": (13, _FIELD.TYPE_UINT64),
    "bool_val": (27, _FIELD.TYPE_BOOL), "string_val": (29, _FIELD.TYPE_STRING),
}  # fmt: skip
"""Fields of ``AttributeProto`` that hold a value, of those in the schema."""
_NODE_TYPES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
    "COMM_RECV_NODE", "COMM_COLL_NODE",
)  # fmt: skip


def write_chakra(shape: ShapeTimes, path: Path) -> None:
    """Write a trace of one device: its layers in the order of a run, each behind those whose results it reads."""
    several = [message.SerializeToString(deterministic=True) for message in (_metadata(shape), *_nodes(shape))]
    content = b"".join([_varint(len(each)) + each for each in several])
    write_with(path, lambda place: place.write_bytes(content))


def messages() -> dict[str, Any]:
    """Return the classes of the messages by name: ``GlobalMetadata``, ``Node``, ``AttributeProto``, ``IOInfo``."""
    return {name: message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))
            for name in ("GlobalMetadata", "Node", "AttributeProto", "IOInfo")}  # fmt: skip


def _metadata(shape: ShapeTimes) -> Any:
    facts = {"network": shape.network, "hardware": shape.hardware, "policy": shape.policy, "dtype": shape.dtype}
    sizes = {"batch": shape.batch, "context": shape.context, "tokens": shape.tokens}
    metadata = messages()["GlobalMetadata"](version=VERSION)
    for name, value in (*facts.items(), *sizes.items()):
        if value is not None:
            _attribute(metadata, name, **{"string_val" if isinstance(value, str) else "int64_val": value})
    return metadata


def _nodes(shape: ShapeTimes) -> Iterator[Any]:
    started_s = 0.0
    for number, layer in enumerate(shape.layers):
        ended_s = started_s + layer.seconds
        begin, end = round(started_s * _MICROSECONDS), round(ended_s * _MICROSECONDS)
        node = messages()["Node"](
            id=number, name=layer.name, type=COMP_NODE, data_deps=layer.after, start_time_micros=begin,
            duration_micros=end - begin, inputs=_operands(layer.inputs), outputs=_operands(layer.outputs),
        )  # fmt: skip
        operations = layer.operations
        _attribute(node, "is_cpu_op", bool_val=False)
        _attribute(node, "num_ops", int64_val=2 * operations.macs + operations.simple + operations.special)
        _attribute(node, "tensor_size", uint64_val=_off_chip_bytes(layer))
        _attribute(node, "seconds", double_val=layer.seconds)
        _attribute(node, "energy_j", double_val=layer.energy_j)
        _attribute(node, "limited_by", string_val=layer.limited_by)
        _attribute(node, "nodes", string_val=";".join(layer.nodes))
        yield node
        started_s = ended_s


def _off_chip_bytes(layer: OperatorTime) -> int:
    """Return the bytes that a layer moves off the chip; of a machine with other memories, those of its operands."""
    moved = [layer.traffic_bytes[name] for name in _OFF_CHIP if name in layer.traffic_bytes]
    return moved[0] if moved else sum(each.size_bytes for each in (*layer.inputs, *layer.outputs))


def _operands(operands: Iterable[Operand]) -> Any:
    several = list(operands)
    shapes = ", ".join(str(list(each.shape)) for each in several)
    types = ", ".join(f'"{each.dtype}"' for each in several)
    return messages()["IOInfo"](values="[]", shapes=f"[{shapes}]", types=f"[{types}]")


def _attribute(message: Any, name: str, **value: object) -> None:
    message.attr.append(messages()["AttributeProto"](name=name, **value))


_LOW_BITS, _MORE = 0x7F, 0x80
"""Bits of a byte that hold a part of the number, and the bit that says that further bytes follow."""


def _varint(number: int) -> bytes:
    """Return a length as protobuf encodes it: seven bits a byte, the lowest first."""
    content = bytearray()
    while number > _LOW_BITS:
        content.append(number & _LOW_BITS | _MORE)
        number >>= 7
    return bytes([*content, number])


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """Return a pool of its own with the part of Chakra's schema that is written here."""
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=_PACKAGE, syntax="proto3")
    node_types = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_NODE_TYPES):
        node_types.value.add(name=name, number=number)
    text, whole = _FIELD.TYPE_STRING, _FIELD.TYPE_UINT64
    attribute = _message(file, "AttributeProto", {"name": (1, text), "doc_string": (2, text), **_ATTRIBUTE_VALUES})
    attribute.oneof_decl.add(name="value")
    for field in attribute.field:
        if field.name in _ATTRIBUTE_VALUES:
            field.oneof_index = 0
    _message(file, "IOInfo", {"values": (1, text), "shapes": (2, text), "types": (3, text)})
    metadata = _message(file, "GlobalMetadata", {"version": (1, text)})
    _nested(metadata, "attr", 2, "AttributeProto", is_repeated=True)
    node = _message(
        file, "Node",
        {"id": (1, whole), "name": (2, text), "start_time_micros": (6, whole), "duration_micros": (7, whole)},
    )  # fmt: skip
    node.field.add(name="type", number=3, type=_FIELD.TYPE_ENUM, type_name=f".{_PACKAGE}.NodeType", label=1)
    for number, name in ((4, "ctrl_deps"), (5, "data_deps")):
        node.field.add(name=name, number=number, type=whole, label=_FIELD.LABEL_REPEATED)
    _nested(node, "inputs", 8, "IOInfo")
    _nested(node, "outputs", 9, "IOInfo")
    _nested(node, "attr", 10, "AttributeProto", is_repeated=True)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _message(file: Any, name: str, fields: dict[str, tuple[int, Any]]) -> Any:
    message = file.message_type.add(name=name)
    for field, (number, kind) in fields.items():
        message.field.add(name=field, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    return message


def _nested(message: Any, name: str, number: int, kind: str, *, is_repeated: bool = False) -> None:
    label = _FIELD.LABEL_REPEATED if is_repeated else _FIELD.LABEL_OPTIONAL
    message.field.add(
        name=name, number=number, type=_FIELD.TYPE_MESSAGE, type_name=f".{_PACKAGE}.{kind}", label=label
    )
