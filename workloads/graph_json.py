"""A Graph as JSON and back; equal loops, indices, accesses and nests are stored once and referred to by number."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dsascape.workloads.graph import Graph, Op, Rebuild, Tensor
from dsascape.workloads.loopnest import Access, Band, Bound, Index, Loop, LoopNest, Operations

FORMAT = 4
Row = list[Any]


class _Numbered:
    """Table of distinct objects in the order in which they were first seen, each as a row of plain values."""

    def __init__(self, row_of: Callable[[Any], Row]) -> None:
        self.rows: list[Row] = []
        self._row_of = row_of
        self._number: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        number = self._number.get(thing)
        if number is None:
            row = self._row_of(thing)
            number = self._number[thing] = len(self.rows)
            self.rows.append(row)
        return number

    def all(self, things: Iterable[Any]) -> list[int]:
        return [self(thing) for thing in things]


def to_plain(graph: Graph) -> dict[str, Any]:
    """Return ``graph`` as dictionaries, lists, texts and numbers, without ``rebuild``."""
    loops = _Numbered(lambda loop: [loop.name, loop.extent, loop.reduction])
    operations = _Numbered(lambda work: [work.macs, work.simple, work.special])
    indices = _Numbered(
        lambda i: [i.terms, i.offset, i.divisor, i.rounding, i.window, i.opaque, i.clamp, i.table]
    )
    accesses = _Numbered(lambda access: [access.tensor, access.shape, indices.all(access.indices)])
    nests = _Numbered(
        lambda nest: [
            nest.name,
            loops.all(nest.loops),
            accesses.all(nest.reads),
            accesses(nest.write),
            operations(nest.per_iteration),
            operations(nest.per_output),
            accesses.all([] if nest.carried is None else [nest.carried]),
            None if nest.bound is None else [nest.bound.outer, nest.bound.inner, *_band_row(nest.bound.band)],
            nest.running,
        ]
    )
    ops = [
        [
            op.name, op.kind, op.inputs, op.outputs, nests.all(op.nests), [_tensor_row(t) for t in op.internals],
            None if op.band is None else _band_row(op.band), op.masks,
        ]
        for op in graph.ops
    ]
    return {
        "format": FORMAT,
        "name": graph.name,
        "batch": graph.batch,
        "batch_dims": graph.batch_dims,
        "no_batch": graph.no_batch,
        "batch_sized": graph.batch_sized,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "tensors": [_tensor_row(tensor) for tensor in graph.tensors.values()],
        "loops": loops.rows,
        "operations": operations.rows,
        "indices": indices.rows,
        "accesses": accesses.rows,
        "nests": nests.rows,
        "ops": ops,
    }


def from_plain(plain: Mapping[str, Any], rebuild: Rebuild | None = None) -> Graph:
    """Return the graph that `to_plain` was given; raise ``ValueError`` or a look-up error for anything else."""
    if plain["format"] != FORMAT:
        raise ValueError(f"format {plain['format']!r} is not {FORMAT}")
    loops = [Loop(*row) for row in plain["loops"]]
    operations = [Operations(*row) for row in plain["operations"]]
    indices = [_index(row) for row in plain["indices"]]
    accesses = [
        Access(tensor, tuple(shape), tuple([indices[number] for number in chosen]))
        for tensor, shape, chosen in plain["accesses"]
    ]
    nests = [
        LoopNest(
            name,
            tuple([loops[number] for number in own_loops]),
            tuple([accesses[number] for number in reads]),
            accesses[write],
            operations[each],
            operations[last],
            accesses[carried[0]] if carried else None,
            None if bound is None else Bound(bound[0], bound[1], Band(*bound[2:])),
            running,
        )
        for name, own_loops, reads, write, each, last, carried, bound, running in plain["nests"]
    ]
    ops = tuple(
        Op(
            name,
            kind,
            tuple(inputs),
            tuple(outputs),
            tuple([nests[number] for number in own_nests]),
            tuple([_tensor(row) for row in internals]),
            None if band is None else Band(*band),
            tuple(masks),
        )
        for name, kind, inputs, outputs, own_nests, internals, band, masks in plain["ops"]
    )
    tensors = {row[0]: _tensor(row) for row in plain["tensors"]}
    return Graph(
        plain["name"],
        ops,
        tensors,
        tuple(plain["inputs"]),
        tuple(plain["outputs"]),
        plain["batch"],
        rebuild,
        tuple((name, dim) for name, dim in plain["batch_dims"]),
        plain["no_batch"],
        tuple(plain["batch_sized"]),
    )


def _band_row(band: Band) -> Row:
    return [band.offset, band.window]


def _tensor_row(tensor: Tensor) -> Row:
    return [tensor.name, tensor.shape, tensor.dtype, tensor.role, tensor.order]


def _tensor(row: Sequence[Any]) -> Tensor:
    name, shape, dtype, role, order = row
    return Tensor(name, tuple(shape), dtype, role, tuple(order))


def _index(row: Sequence[Any]) -> Index:
    terms, offset, divisor, rounding, window, opaque, clamp, table = row
    pairs = tuple((loop, stride) for loop, stride in terms)
    return Index(pairs, offset, divisor, rounding, window, opaque, clamp, tuple(table))
