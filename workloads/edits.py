"""Edits of an imported network: operators of its file replaced by others.

Edits name tensors, kinds and attributes only, so that they apply at any batch size. New operators are typed as if the
file contained them; their results are weights, computed once, if they read weights only. Operators without readers are
dropped when the network is lowered.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.walk import walk_edited
from dsascape.workloads.walk_state import Walk, attributes_of

Attributes = tuple[tuple[str, Hashable], ...]
"""Attributes as (name, value), by ascending name; lists as tuples."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator as a file states it; an omitted input has an empty name."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes = ()


@dataclass(frozen=True, slots=True)
class Constant:
    """A weight of one element that an edit adds."""

    name: str
    value: float
    like: str
    """Tensor whose element type the constant has."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of the operator that writes tensor ``place`` by ``nodes``, the last of which writes it."""

    place: str
    nodes: tuple[Node, ...]
    constants: tuple[Constant, ...] = ()


def edited_walk(file: OnnxFile, walk: Walk, edits: Sequence[Edit]) -> Walk:
    """Return ``walk`` with ``edits``; raise ``WorkloadError`` naming the tensor whose operator is not there."""
    written = {name for node in walk.nodes for name in node.output}
    for edit in edits:
        if edit.place not in written:
            raise WorkloadError(f"{file.where}: no operator writes {edit.place!r}, which an edit replaces")
    replaced = {edit.place: tuple(map(as_proto, edit.nodes)) for edit in edits}
    constants = {c.name: _value(walk, c) for edit in edits for c in edit.constants}
    return walk_edited(file, walk, replaced, constants)


def _value(walk: Walk, constant: Constant) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.asarray(constant.value, helper.tensor_dtype_to_np_dtype(walk.types[constant.like].element))


def as_proto(node: Node) -> onnx.NodeProto:
    """Return ``node`` in ONNX's form; its name is its first output's."""
    attributes: dict[str, Any] = {name: list(v) if isinstance(v, tuple) else v for name, v in node.attributes}
    return helper.make_node(node.kind, node.inputs, node.outputs, name=node.outputs[0], **attributes)


def plain_node(proto: onnx.NodeProto) -> Node | None:
    """Return ``proto`` as a node, None if it is of a custom domain or has other attributes than numbers and text."""
    attributes = []
    for name, value in sorted(attributes_of(proto).items()):
        plain = tuple(value) if isinstance(value, list) else value
        if not isinstance(plain, int | float | bytes | tuple) or not _is_flat(plain):
            return None
        attributes.append((name, plain))
    if proto.domain not in ("", "ai.onnx"):
        return None
    return Node(proto.op_type, tuple(proto.input), tuple(proto.output), tuple(attributes))


def _is_flat(value: object) -> bool:
    return not isinstance(value, tuple) or all(isinstance(part, int | float | bytes) for part in value)
