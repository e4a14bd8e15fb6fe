"""From an ONNX file to a Graph: shapes made static, shape arithmetic folded, every operator a loop nest."""

import zlib
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import onnx
from onnx import helper

from workloads.graph import Graph, WorkloadError
from workloads.known import DTYPES, Typed
from workloads.lowering import build_graph
from workloads.onnx_file import OnnxFile, parse_onnx, read_onnx
from workloads.rescale import Change
from workloads.simplify import simplified
from workloads.walk import walk_file

_MATRIX_RANK = 2


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user may change about a network while it is read."""

    batch: int | None = None
    sequence: int | None = None
    simplify: bool = False


@dataclass(frozen=True, slots=True)
class Reimport:
    """Rebuilds the network from its file at another batch size; pickles as the bytes of the stripped file."""

    packed: bytes
    """The file without the values of its large weights, compressed."""
    where: str
    name: str
    options: ImportOptions

    def __call__(self, batch: int) -> Graph:
        file = parse_onnx(zlib.decompress(self.packed), self.where)
        return graph_from_file(file, self.name, replace(self.options, batch=batch))


def import_onnx(
    source: str | Path | bytes,
    *,
    name: str | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    simplify: bool = False,
) -> Graph:
    """Return the network in an ONNX file (a path, or its bytes) at ``batch`` and ``sequence`` length.

    Without them the file's own sizes stay; a batch that the file leaves open becomes 1. Shape arithmetic is
    always folded; ``simplify`` also drops what does nothing (see ``workloads/simplify.py``). Raises
    ``WorkloadError`` naming file, node and operator for what cannot be taken.
    """
    file = parse_onnx(source, name or "model") if isinstance(source, bytes) else read_onnx(Path(source))
    return graph_from_file(file, name or Path(file.where).stem, ImportOptions(batch, sequence, simplify))


def graph_from_file(file: OnnxFile, name: str, options: ImportOptions) -> Graph:
    """Return the network of a parsed file, rescaled where the file's sizes are not the ones asked for."""
    batch, sequence = options.batch, options.sequence
    for option, value in (("batch", batch), ("sequence", sequence)):
        if value is not None and value < 1:
            raise WorkloadError(f"{file.where}: {option} has {value}; needs at least 1")
    own = _input_shapes(file, batch, sequence)
    walk = walk_file(file, own)
    own_batch = next((typed.shape[0] for typed in own.values() if typed.shape), 1)
    wanted, change = _wanted_shapes(file, own, own_batch, batch, sequence)
    if wanted != own:
        walk = walk_file(file, wanted, before=walk, change=change)
    if options.simplify:
        walk = simplified(walk, [entry.name for entry in file.model.graph.output])
    rebuild = Reimport(zlib.compress(_stripped(file), 1), file.where, name, options)
    return build_graph(file, name, walk, tuple(own), batch or own_batch, rebuild)


def _input_shapes(file: OnnxFile, batch: int | None, sequence: int | None) -> dict[str, Typed]:
    """Return type and shape of every input; sizes that the file leaves open come from the options."""
    inputs: dict[str, Typed] = {}
    for entry in file.model.graph.input:
        if entry.name in file.weights:
            continue
        kind = entry.type.tensor_type
        if not entry.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise WorkloadError(f"{file.where}: input {entry.name!r} is not a tensor of known rank")
        shape = []
        for place, dim in enumerate(kind.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                shape.append(dim.dim_value)
            elif place == 0:
                shape.append(batch or 1)
            elif place == 1 and sequence is not None:
                shape.append(sequence)
            else:
                raise WorkloadError(
                    f"{file.where}: input {entry.name!r} has an open size"
                    f" {dim.dim_param or '?'!r} in dimension {place};"
                    " only the batch (0) and, with the option sequence, dimension 1 can be set:"
                    " export it with fixed sizes"
                )
        inputs[entry.name] = Typed(kind.elem_type, tuple(shape))
    if not inputs:
        raise WorkloadError(f"{file.where}: has no inputs, so there is nothing to run")
    return inputs


def _wanted_shapes(
    file: OnnxFile, own: dict[str, Typed], own_batch: int, batch: int | None, sequence: int | None
) -> tuple[dict[str, Typed], Change]:
    """Return the input shapes asked for. The batch is dimension 0; the sequence is dimension 1 of tokens."""
    ratio = Fraction(1)
    wanted = {}
    for name, typed in own.items():
        shape = list(typed.shape)
        if batch is not None and shape and shape[0] == own_batch:
            shape[0] = batch
        tokens = len(shape) >= _MATRIX_RANK and DTYPES.get(typed.element) in ("int64", "int32", "bool")
        if sequence is not None and tokens and shape[1] != sequence:
            ratio = Fraction(sequence, shape[1])
            shape[1] = sequence
        wanted[name] = Typed(typed.element, tuple(shape))
    if sequence is not None and not any(t.shape[1:2] == (sequence,) for t in wanted.values()):
        raise WorkloadError(f"{file.where}: has no input of tokens, so the option sequence does not apply")
    return wanted, Change(own_batch, batch or own_batch, ratio)


def _stripped(file: OnnxFile) -> bytes:
    """Return the file without the values of large weights, which nothing here needs."""
    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    weights = set(file.weights)
    small = [t for t in model.graph.initializer if t.name in file.constants]
    large = [t for t in model.graph.initializer if t.name not in file.constants]
    listed = {entry.name for entry in model.graph.input}
    inputs = [
        helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
        for t in large
        if t.name not in listed
    ]
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in small]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.input.extend(inputs)
    del model.metadata_props[:]
    entry = model.metadata_props.add()
    entry.key, entry.value = "weights", ",".join(sorted(weights))
    return model.SerializeToString()
