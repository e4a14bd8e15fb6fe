"""Figures per layer of a run: critical time, bytes moved, limiting resource."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.points import Row, flat
from dsascape.hw_models.simulation.instructions import Compute, InstructionTable, base_name
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.layer_names import launch_names, layer_names

BETWEEN_LAYERS = "(kernel launches)"
"""Label of instructions that belong to no layer."""


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """Figures of one layer, summed over its instances and iterations."""

    layer: str
    """Label in the program: the name of the tensor that the layer writes, the same under every plan."""
    runs: int
    critical_s: float
    """Time in which an instruction of the layer was on the critical path, in seconds; all layers sum to the latency."""
    limited_by: str
    """Limiting resource of most of that time; for a layer never on the critical path, of most of its own time."""
    traffic_bytes: Mapping[str, int]
    """Bytes read and written per memory, summed over its copies."""
    name: str = ""
    """Name of the layer in its plan, such as ``#41 Conv+Relu 512x7x7``; ``layer`` where a schedule lists no layers."""

    @property
    def shown(self) -> str:
        """Name to show: the one in the plan, or the label."""
        return self.name or self.layer


@dataclass(slots=True)
class _Sums:
    runs: int = 0
    critical_ps: dict[str, int] = field(default_factory=partial(defaultdict, int))
    under_way_ps: dict[str, int] = field(default_factory=partial(defaultdict, int))
    """Time per limiting resource, filled only for layers that are never critical."""
    works: dict[int, int] = field(default_factory=partial(defaultdict, int))
    """Number of instructions per operation of the program."""


def layers_of(outcome: Outcome) -> list[LayerFigures]:
    """Return the figures of each layer, in the order in which layers first start."""
    trace, table = outcome.result.trace, outcome.program.instructions
    layer_runs = np.asarray(table.layer_runs)
    names = _names(table, layer_runs)
    begun = layer_runs[np.argsort(np.asarray(trace.start_ps), kind="stable")]  # at one moment: as in the program
    sums = {names[layer_run]: _Sums() for layer_run in begun[np.sort(_first(begun))].tolist()}
    of_run: Counter[int] = Counter()
    for layer_run, number, count in _counts(layer_runs, np.asarray(table.work_of), len(table.works)):
        of_run[layer_run] += count
        sums[names[layer_run]].works[number] += count
    for layer_run, count in of_run.items():
        sums[names[layer_run]].runs += 1 if layer_run >= 0 else count
    for position, paced_by, start_ps, end_ps in trace.critical_steps:
        sums[names[table.layer_runs[position]]].critical_ps[paced_by] += end_ps - start_ps
    never_critical = [layer_run for layer_run in of_run if not sums[names[layer_run]].critical_ps]
    for position in np.flatnonzero(np.isin(layer_runs, never_critical)).tolist():
        under_way_ps = trace.end_ps[position] - trace.start_ps[position]
        sums[names[table.layer_runs[position]]].under_way_ps[base_name(trace.limits[position])] += under_way_ps
    moved_bytes, shown = outcome.result.moved_bytes, layer_names(outcome.schedule)
    return [
        replace(_figures(label, total, moved_bytes, outcome.record.iterations), name=shown.get(label, label))
        for label, total in sums.items()
    ]


def works_of_layers(outcome: Outcome) -> dict[str, dict[int, int]]:
    """Return the number of instructions of each work (by its number in the program), by the label of their layer."""
    table = outcome.program.instructions
    layer_runs = np.asarray(table.layer_runs)
    names = _names(table, layer_runs)
    works: dict[str, dict[int, int]] = {}
    for layer_run, number, count in _counts(layer_runs, np.asarray(table.work_of), len(table.works)):
        own = works.setdefault(names[layer_run], {})
        own[number] = own.get(number, 0) + count
    return works


def spans_of_layers(outcome: Outcome) -> dict[str, int]:
    """Return picoseconds from the start of a layer's first instruction to the end of its last, by the layer's label.

    The spans of several runs of a layer are added up; those of layers that overlap overlap, too.
    """
    trace, table = outcome.result.trace, outcome.program.instructions
    layer_runs = np.asarray(table.layer_runs)
    names = _names(table, layer_runs)
    runs, places = np.unique(layer_runs, return_inverse=True)
    starts, ends = np.full(len(runs), np.iinfo(np.int64).max), np.zeros(len(runs), np.int64)
    np.minimum.at(starts, places, np.asarray(trace.start_ps))
    np.maximum.at(ends, places, np.asarray(trace.end_ps))
    spans: dict[str, int] = {}
    for layer_run, span in zip(runs.tolist(), (ends - starts).tolist(), strict=True):
        spans[names[layer_run]] = spans.get(names[layer_run], 0) + span
    return spans


def instruction_names(outcome: Outcome) -> list[str]:
    """Return the label of each instruction of the program, with the names of layers and kernels in place of tensors.

    An instruction that brings weights of ``relu_14`` is called ``#41 Conv+Relu 512x7x7 weights``.
    """
    table = outcome.program.instructions
    labels, shown = _names(table, np.asarray(table.layer_runs)), layer_names(outcome.schedule)
    launches = launch_names(outcome.schedule)
    names = []
    for label, layer_run in zip(table.labels, table.layer_runs, strict=True):
        layer = labels[layer_run]
        if layer_run < 0:
            names.append(launches.get(label, label))
        else:
            names.append(shown.get(layer, layer) + label.removeprefix(layer) if label.startswith(layer) else label)
    return names


def operators_of(outcome: Outcome) -> dict[str, list[str]]:
    """Return the names of the operators that each layer computes, in topological order, by the layer's label.

    An operator belongs to the layer that writes its output, otherwise to the first layer that its output leads to.
    """
    table, graph = outcome.program.instructions, outcome.schedule.graph
    labels = set(_names(table, np.asarray(table.layer_runs)).values())
    layer_of: dict[str, str] = {}
    operators: dict[str, list[str]] = {}
    for op in reversed(graph.ops):
        own = next((name for name in op.outputs if name in labels), None)
        layer = own or next((layer_of[name] for name in op.outputs if name in layer_of), None)
        if layer is not None:
            operators.setdefault(layer, []).insert(0, op.name)
            layer_of |= dict.fromkeys((name for name in op.inputs if name in graph.producer), layer)
    return operators


def layer_rows(outcome: Outcome, layers: Iterable[LayerFigures]) -> tuple[Row, ...]:
    """Return the rows of layers that are stored: their figures, and the names of their operators as text."""
    operators = operators_of(outcome)
    return tuple({**flat(each), "operators": ", ".join(operators.get(each.layer, ()))} for each in layers)


_Numbers = npt.NDArray[np.integer[Any]]


def _first(numbers: _Numbers) -> _Numbers:
    """Return the first position of each distinct number, in order of the numbers."""
    return np.unique(numbers, return_index=True)[1]


def _counts(layer_runs: _Numbers, work_of: _Numbers, works: int) -> Iterator[tuple[int, int, int]]:
    """Yield (layer run, operation, number of its instructions in that run), in program order."""
    both = (layer_runs.astype(np.int64) + 1) * works + work_of
    _, first, counts = np.unique(both, return_index=True, return_counts=True)
    order = np.argsort(first)
    places = first[order]
    return zip(layer_runs[places].tolist(), work_of[places].tolist(), counts[order].tolist(), strict=True)


def _names(table: InstructionTable, layer_runs: _Numbers) -> dict[int, str]:
    """Return the layer name of each run: the label of its first computation."""
    computes = np.array([isinstance(work.payload, Compute) for work in table.works], dtype=bool)
    computing = np.flatnonzero(computes[np.asarray(table.work_of)])
    places = [*_first(layer_runs).tolist(), *computing[_first(layer_runs[computing])].tolist()]  # these replace those
    return {**{table.layer_runs[place]: table.labels[place] for place in places}, -1: BETWEEN_LAYERS}


def _figures(
    name: str, sums: _Sums, moved_bytes: Sequence[Mapping[str, float]], iterations: int
) -> LayerFigures:
    times = sums.critical_ps or sums.under_way_ps
    moved: dict[str, float] = {}
    for number, count in sums.works.items():
        for memory, size in moved_bytes[number].items():
            moved[memory] = moved.get(memory, 0.0) + count * size
    return LayerFigures(
        layer=name,
        runs=sums.runs * iterations,
        critical_s=sum(sums.critical_ps.values()) / PS_PER_S * iterations,
        limited_by=max(times, key=lambda paced_by: (times[paced_by], paced_by)),
        traffic_bytes={memory: round(size) * iterations for memory, size in sorted(moved.items())},
    )
