"""Totals of a network, and totals by kind of operator with their shares of arithmetic and bytes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dsascape.workloads.graph import Graph, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSummary:
    """Totals of one network at one batch size."""

    name: str
    batch: int
    operators: int
    parameters: int
    """Elements of all floating-point weights."""
    weight_bytes: int
    macs: int
    """Number of multiply-accumulates, all operators together."""
    flops: int
    """All floating-point operations, a multiply-accumulate counting as two."""
    activation_bytes: int
    """Outputs of all operators, each counted once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSummary:
    """Totals of all operators of one kind in a network."""

    kind: str
    operators: int
    flops: int
    flops_share: float
    """Fraction of the network's ``flops``; the shares of all kinds add up to one."""
    bytes_touched: int
    """Elements read and written, each tensor once per operator; views touch nothing."""
    bytes_share: float
    """Fraction of the bytes that all kinds touch."""


def summarise(graph: Graph) -> NetworkSummary:
    """Return the totals of ``graph``."""
    operations = graph.operations
    return NetworkSummary(
        name=graph.name,
        batch=graph.batch,
        operators=len(graph.ops),
        parameters=graph.parameters,
        weight_bytes=graph.weight_bytes,
        macs=operations.macs,
        flops=operations.flops,
        activation_bytes=graph.activation_bytes,
    )


def summarise_kinds(graph: Graph) -> tuple[KindSummary, ...]:
    """Return one row per kind of operator, most arithmetic first, then most bytes, then by name."""
    operators: dict[str, int] = {}
    flops: dict[str, int] = {}
    touched: dict[str, int] = {}
    for op in graph.ops:
        operators[op.kind] = operators.get(op.kind, 0) + 1
        flops[op.kind] = flops.get(op.kind, 0) + op.operations.flops
        touched[op.kind] = touched.get(op.kind, 0) + bytes_touched(graph, op)
    all_flops, all_bytes = max(sum(flops.values()), 1), max(sum(touched.values()), 1)
    rows = (
        KindSummary(
            kind=kind,
            operators=count,
            flops=flops[kind],
            flops_share=flops[kind] / all_flops,
            bytes_touched=touched[kind],
            bytes_share=touched[kind] / all_bytes,
        )
        for kind, count in operators.items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.flops, -row.bytes_touched, row.kind)))


def bytes_touched(graph: Graph, op: Op) -> int:
    """Return the bytes that ``op`` reads and writes if nothing is kept from one operator to the next."""
    if op.is_view:
        return 0
    elements: dict[str, int] = {name: graph.tensors[name].elements for name in op.outputs}
    for nest in op.nests:
        for read in nest.reads:
            if read.tensor in graph.tensors and read.tensor not in op.outputs:
                reached = math.prod(read.extents(nest.extents))
                elements[read.tensor] = max(elements.get(read.tensor, 0), reached)
    return sum(graph.tensors[name].bytes_of(count) for name, count in elements.items())


def networks_table(rows: Iterable[NetworkSummary]) -> str:
    """Return the totals of networks as aligned text, one line each."""
    header = ("network", "batch", "operators", "parameters M", "GFLOP", "activations MB")
    cells = [
        (
            row.name,
            str(row.batch),
            str(row.operators),
            f"{row.parameters / 1e6:.2f}",
            f"{row.flops / 1e9:.3f}",
            f"{row.activation_bytes / 1e6:.1f}",
        )
        for row in rows
    ]
    return _aligned(header, cells)


def kinds_table(rows: Iterable[KindSummary]) -> str:
    """Return the kinds of operators of one network as aligned text, one line each."""
    header = ("kind", "operators", "GFLOP", "of FLOP", "MB", "of bytes")
    cells = [
        (
            row.kind,
            str(row.operators),
            f"{row.flops / 1e9:.3f}",
            f"{row.flops_share:.1%}",
            f"{row.bytes_touched / 1e6:.1f}",
            f"{row.bytes_share:.1%}",
        )
        for row in rows
    ]
    return _aligned(header, cells)


def _aligned(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return lines with the first column to the left and the others to the right."""
    table = [header, *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = (
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
    return "\n".join(line.rstrip() for line in lines)
