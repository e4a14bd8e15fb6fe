"""A run layer by layer: what each took of the critical path, what it moved, what it was limited by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments.job import Outcome
from hw_models import AnyHardware
from hw_models.demands import Cohort, Demands
from hw_models.instructions import Compute, InstructionTable, Work, base_name
from hw_models.quantities import PS_PER_S
from scheduler import kind_of

BETWEEN_LAYERS = "(kernel launches)"
"""What belongs to no layer."""
_ONE_BLOCK = Cohort(0, 1, 1)


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """What a layer came to in all its runs: those of its instances, in every iteration."""

    layer: str
    """As the program labels what it computes: by the tensor that it writes."""
    runs: int
    critical_s: float
    """While something of it was on the critical path; over all layers that is the latency."""
    limited_by: str
    """What set the pace most of that time; of a layer that is never on the critical path, most of its own time."""
    traffic_bytes: Mapping[str, int]
    """Per memory: bytes read and written, all copies together."""


@dataclass(slots=True)
class _Sums:
    runs: set[int] = field(default_factory=set)
    critical_ps: Counter[str] = field(default_factory=Counter)
    under_way_ps: Counter[str] = field(default_factory=Counter)
    works: Counter[int] = field(default_factory=Counter)
    """How many instructions do each work of the program."""


def layers_of(outcome: Outcome, hardware: AnyHardware) -> list[LayerFigures]:
    """Return the figures of the layers of a run, in the order in which they first begin."""
    trace, table = outcome.result.trace, outcome.program.instructions
    names = _names(table)
    sums: dict[str, _Sums] = {}
    bases = {limit: base_name(limit) for limit in dict.fromkeys(trace.limits)}
    start_ps, end_ps, limits = trace.start_ps, trace.end_ps, trace.limits
    for position in sorted(range(len(table)), key=start_ps.__getitem__):
        layer_run = table.layer_runs[position]
        name = names[layer_run]
        found = sums.get(name)
        if found is None:
            found = sums[name] = _Sums()
        found.runs.add(layer_run if layer_run >= 0 else -1 - position)
        found.under_way_ps[bases[limits[position]]] += end_ps[position] - start_ps[position]
        found.works[table.work_of[position]] += 1
    for step in trace.critical_steps():
        sums[names[table.layer_runs[step.position]]].critical_ps[step.paced_by] += step.end_ps - step.start_ps
    demands = Demands(outcome.program, kind_of(hardware).machine(hardware))
    traffic = [_traffic(number, work, demands) for number, work in enumerate(table.works)]
    return [_figures(name, found, traffic, outcome.record.iterations) for name, found in sums.items()]


def _names(table: InstructionTable) -> dict[int, str]:
    """Return the layer of every run, by the label of the first thing that it computes."""
    names = {-1: BETWEEN_LAYERS}
    computes = [isinstance(work.payload, Compute) for work in table.works]
    for layer_run, number, label in zip(table.layer_runs, table.work_of, table.labels, strict=True):
        if layer_run not in names and computes[number]:
            names[layer_run] = label
    for layer_run, label in zip(table.layer_runs, table.labels, strict=True):
        names.setdefault(layer_run, label)
    return names


def _traffic(number: int, work: Work, demands: Demands) -> list[tuple[str, float]]:
    """Return the memories and the bytes that all members move there together for one instruction."""
    bound = not work.blocks
    asked = demands.of(number).parts if bound else (demands.of_cohort(number, _ONE_BLOCK),)
    times = 1 if bound else work.blocks
    return [(base_name(demands.names[port]), size * times) for each in asked for port, size in each.traffic_bytes]


def _figures(
    name: str, sums: _Sums, traffic: Sequence[Sequence[tuple[str, float]]], iterations: int
) -> LayerFigures:
    times = sums.critical_ps or sums.under_way_ps
    moved: dict[str, float] = {}
    for number, count in sums.works.items():
        for memory, size in traffic[number]:
            moved[memory] = moved.get(memory, 0.0) + count * size
    return LayerFigures(
        layer=name,
        runs=len(sums.runs) * iterations,
        critical_s=sums.critical_ps.total() / PS_PER_S * iterations,
        limited_by=max(times, key=lambda paced_by: (times[paced_by], paced_by)),
        traffic_bytes={memory: round(size) * iterations for memory, size in sorted(moved.items())},
    )
