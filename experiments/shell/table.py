"""The command ``table``: times of operators over a grid of shapes, in the formats of other simulators."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from dsascape.experiments.api import simulate
from dsascape.experiments.engine.operator_grid import GridTimes, grid_times
from dsascape.experiments.point.operator_times import ShapeTimes, shape_times
from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.shapes import read_shapes
from dsascape.experiments.report.chakra import write_chakra
from dsascape.experiments.report.llm_serving_sim import write_llm_serving_sim
from dsascape.experiments.report.operator_table import (
    check_parquet,
    table_rows,
    write_csv_table,
    write_parquet_table,
)
from dsascape.experiments.report.words import quantity
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, say, table, unwritten_told
from dsascape.experiments.shell.simulate import (
    requested_kernels,
    requested_machine_and_tuning,
    requested_policy,
    requested_workload,
)
from dsascape.experiments.shell.table_options import FOLDER
from dsascape.hw_models.text.folder_lock import FolderLock
from dsascape.hw_models.text.whole_file import FileError
from dsascape.wording import count

GRID = ("batch", "sequence", "tokens", "context")
"""Sizes that a grid may list."""
_TRACE = ".0.et"
"""End of the name of a trace of device 0, as ASTRA-sim opens it."""
_MOST_SHOWN = 10


def write_table(arguments: argparse.Namespace) -> Answer:
    """Simulate a network at every shape of a grid, or each operator of a file, and write the times of its layers."""
    _check_place(arguments)
    with ExitStack() as held:
        if arguments.format == FOLDER:
            held.enter_context(FolderLock(arguments.out))
        return _made(arguments)


def _made(arguments: argparse.Namespace) -> Answer:
    grid = _of_operators(arguments) if arguments.operators is not None else _of_network(arguments)
    written: list[Path] = []
    unwritten: list[str] = []
    with unwritten_told(unwritten):
        written = _written(arguments, grid.shapes)
    distinct = [len({layer.first_equal for layer in shape.layers}) for shape in grid.shapes]
    data: dict[str, Any] = {
        "format": arguments.format, "files": [str(path) for path in written], "rows": sum(distinct),
        "shapes": [_described(shape) for shape in grid.shapes],
        "failed": [{**_sizes(point), "reason": reason} for point, reason in grid.failed],
    }  # fmt: skip

    def show() -> None:
        shapes = count(len(grid.shapes), "shape")
        say(f"{shapes}, {count(sum(distinct), 'distinct layer')} in all, in {', '.join(map(str, written))}")
        rows = [
            (shape.network, *("" if size is None else size for size in (shape.batch, shape.context, shape.tokens)),
             len(shape.layers), layers, quantity(shape.latency_s, "s"))
            for shape, layers in zip(grid.shapes, distinct, strict=True)
        ]  # fmt: skip
        some = f", {_MOST_SHOWN} of {len(rows)}" if len(rows) > _MOST_SHOWN else ""
        headings = ("network", "batch", "context", "tokens", "layers", "distinct", "latency")
        table(f"Shapes{some}", headings, rows[:_MOST_SHOWN])()
        for point, reason in grid.failed:
            sizes = ", ".join(f"{name} {size}" for name, size in _sizes(point).items())
            say(f"not in the table: {point.workload.family}, {sizes}: {reason}")

    return Answer(data, show, POINTS_FAILED if grid.failed else 0, tuple(unwritten))


def _check_place(arguments: argparse.Namespace) -> None:
    """Raise ``FileError`` for a place that does not go with the format."""
    place: Path = arguments.out
    if arguments.format == "parquet":
        check_parquet()
    if arguments.format == "chakra" and not place.name.endswith(_TRACE):
        raise FileError(f"--out has {place}; ASTRA-sim opens NAME{_TRACE}, so the name needs to end in {_TRACE}")


def _of_network(arguments: argparse.Namespace) -> GridTimes:
    """Simulate the network of the arguments at all shapes."""
    spec, tuning = requested_machine_and_tuning(arguments)
    policy, kernels = requested_policy(arguments), requested_kernels(arguments, spec)
    file = arguments.policy if arguments.policy.endswith(".py") else ""
    points = [
        DesignPoint(workload, spec, policy, policy_file=file, tuning=tuning, kernels=kernels)
        for workload in map(requested_workload, _at_sizes(arguments))
    ]
    grid = grid_times(points, arguments.workers or 0)
    if not grid.shapes:
        raise ExperimentError(f"no shape of the grid can be simulated: {grid.failed[0][1]}")
    return grid


def _at_sizes(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yield the arguments at each combination of sizes, the last listed varying fastest."""
    listed: list[Sequence[int | None]] = [getattr(arguments, f"{name}_list") or [None] for name in GRID]
    for sizes in itertools.product(*listed):
        at_sizes = dict(zip(GRID, sizes, strict=True))
        yield argparse.Namespace(**{**vars(arguments), "model": arguments.network, **at_sizes})


def _of_operators(arguments: argparse.Namespace) -> GridTimes:
    """Simulate each operator of a file of shapes by itself."""
    given = [f"--{'batches' if name == 'batch' else name}" for name in GRID if getattr(arguments, f"{name}_list")]
    given += [f"--{name}" for name in ("image", "kernels") if getattr(arguments, name) is not None]
    spec, tuning = requested_machine_and_tuning(arguments)
    if given or tuning:
        raise ExperimentError(f"{given[0] if given else '--set tuning'} does not go with --operators")
    run = partial(simulate, hardware=spec, policy=requested_policy(arguments), dtype=arguments.dtype)
    graphs = read_shapes(arguments.operators)
    return GridTimes(tuple(shape_times(run(graph), spec, name) for name, graph in graphs.items()))


def _written(arguments: argparse.Namespace, shapes: Sequence[ShapeTimes]) -> list[Path]:
    place: Path = arguments.out
    if arguments.format == FOLDER:
        return write_llm_serving_sim(shapes, place)
    if arguments.format == "chakra":
        places = [place] if len(shapes) == 1 else [place.with_name(_trace_name(place, shape)) for shape in shapes]
        for shape, path in zip(shapes, places, strict=True):
            write_chakra(shape, path)
        return places
    write = write_csv_table if arguments.format == "csv" else write_parquet_table
    write(table_rows(shapes), place)
    return [place]


def _trace_name(place: Path, shape: ShapeTimes) -> str:
    """Return the name of one of several traces, which has the network or the sizes of its shape."""
    sizes = {"batch": shape.batch, "context": shape.context, "tokens": shape.tokens}
    told = [shape.network, *(f"{name}{size}" for name, size in sizes.items() if size is not None)]
    return f"{place.name.removesuffix(_TRACE)}-{'-'.join(told)}{_TRACE}".replace("/", "_")


def _described(shape: ShapeTimes) -> dict[str, object]:
    return {
        "network": shape.network, "batch": shape.batch, "context": shape.context, "tokens": shape.tokens,
        "latency_s": shape.latency_s, "layers": [layer.name for layer in shape.layers],
    }  # fmt: skip


def _sizes(point: DesignPoint) -> dict[str, int]:
    return {name: size for name, size in point.workload.sizes.items() if size is not None}
