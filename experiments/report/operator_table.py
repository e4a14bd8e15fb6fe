"""Tables of operators' times over shapes, as CSV and Parquet: a row for each distinct layer of each shape."""

import csv
import importlib.util
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from dsascape.experiments.point.operator_times import Operand, OperatorTime, ShapeTimes
from dsascape.experiments.results.files import for_spreadsheet
from dsascape.hw_models.text.whole_file import FileError, write_whole, write_with

Value = str | int | float | None
_BYTES = "traffic_bytes."
_SEPARATOR = ";"

COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "network": "name of the network, or of the operator in a file of shapes",
        "hardware": "name of the machine",
        "policy": "policy that decides which operators share a kernel",
        "dtype": "dtype that the run computes in",
        "batch": "batch of the whole machine",
        "context": "tokens in the caches of a language model; empty for other networks",
        "tokens": "tokens that the pass processes for each sequence; empty for other networks",
        "layer": "name of the first of the equal layers: number in the plan, operators, shape of the output",
        "kernel": "number in that name; empty for launches that belong to no layer",
        "operators": "types of the operators, joined by +, views left out",
        "nodes": "names of the first layer's operators in the file, separated by ;",
        "count": "number of equal layers: the same operators on the same shapes",
        "batch_of_shapes": "batch at which the shapes are stated: that of one cluster in one iteration",
        "input_shapes": "shapes of activations and network inputs read, as 4x64x56x56, separated by ;",
        "input_dtypes": "dtypes of these, separated by ;",
        "weight_shapes": "shapes of weights read, separated by ;",
        "weight_dtypes": "dtypes of these, separated by ;",
        "output_shapes": "shapes of tensors written, separated by ;",
        "output_dtypes": "dtypes of these, separated by ;",
        "seconds": "time on the critical path in seconds, mean over the equal layers; times count, they sum to the"
        " latency",
        "span_seconds": "time from the first instruction's start to the last one's end in seconds, mean over the equal"
        " layers; layers may overlap",
        "energy_j": "energy in joules, mean over the equal layers: operations, bytes moved, and static power for"
        " `seconds`",
        "macs": "multiply-accumulates, of one layer",
        "other_operations": "additions, comparisons, divisions, exponentials and the like, of one layer",
        "limited_by": "resource that limits the first layer for most of its time",
    }
)
"""Meaning of each column; behind them is ``traffic_bytes.MEMORY`` for each memory: bytes read and written, mean over
the equal layers."""


def table_rows(shapes: Iterable[ShapeTimes]) -> list[dict[str, Value]]:
    """Return a row for each distinct layer of each shape, with the columns of ``COLUMNS`` and one for each memory."""
    rows = [row for shape in shapes for row in _rows(shape)]
    memories = sorted({name for row in rows for name in row if name.startswith(_BYTES)})
    return [{name: row.get(name, 0 if name in memories else None) for name in (*COLUMNS, *memories)} for row in rows]


def _rows(shape: ShapeTimes) -> Iterable[dict[str, Value]]:
    groups: dict[int, list[OperatorTime]] = {}
    for layer in shape.layers:
        groups.setdefault(layer.first_equal, []).append(layer)
    for equal in groups.values():
        first = equal[0]
        activations = [each for each in first.inputs if not each.is_weight]
        weights = [each for each in first.inputs if each.is_weight]
        yield {
            "network": shape.network, "hardware": shape.hardware, "policy": shape.policy, "dtype": shape.dtype,
            "batch": shape.batch, "context": shape.context, "tokens": shape.tokens,
            "layer": first.name, "kernel": first.kernel, "operators": "+".join(first.operators),
            "nodes": _SEPARATOR.join(first.nodes), "count": len(equal), "batch_of_shapes": shape.batch_of_shapes,
            "input_shapes": _shapes(activations), "input_dtypes": _dtypes(activations),
            "weight_shapes": _shapes(weights), "weight_dtypes": _dtypes(weights),
            "output_shapes": _shapes(first.outputs), "output_dtypes": _dtypes(first.outputs),
            "seconds": _mean(equal, lambda each: each.seconds),
            "span_seconds": _mean(equal, lambda each: each.span_s),
            "energy_j": _mean(equal, lambda each: each.energy_j),
            "macs": first.operations.macs, "other_operations": first.operations.simple + first.operations.special,
            "limited_by": first.limited_by,
            **{f"{_BYTES}{name}": sum(each.traffic_bytes.get(name, 0) for each in equal) / len(equal)
               for name in first.traffic_bytes},
        }  # fmt: skip


def _shapes(operands: Sequence[Operand]) -> str:
    return _SEPARATOR.join("x".join(map(str, each.shape)) or "scalar" for each in operands)


def _dtypes(operands: Sequence[Operand]) -> str:
    return _SEPARATOR.join(each.dtype for each in operands)


def _mean(layers: Sequence[OperatorTime], figure: Callable[[OperatorTime], float]) -> float:
    return sum(map(figure, layers)) / len(layers)


def write_csv_table(rows: Sequence[Mapping[str, Value]], path: Path) -> None:
    """Write rows as CSV with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([for_spreadsheet(each) if isinstance(each, str) else each for each in row.values()])
    write_whole(path, text.getvalue())


def check_parquet() -> None:
    """Raise ``FileError`` if pyarrow, which writes Parquet files, is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise FileError("--format parquet needs pyarrow: pip install 'dsascape[parquet]'; --format csv needs nothing")


def write_parquet_table(rows: Sequence[Mapping[str, Value]], path: Path) -> None:
    """Write rows as a Parquet file; raise ``FileError`` as `check_parquet` does."""
    check_parquet()
    frame = pd.DataFrame([dict(row) for row in rows])
    whole = dict.fromkeys(("batch", "context", "tokens", "count", "batch_of_shapes"), "Int64")
    write_with(path, lambda place: frame.astype(whole).to_parquet(place, engine="pyarrow", index=False))
