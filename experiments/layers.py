"""A run layer by layer: what each took of the critical path, what it moved, what it was limited by."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

from experiments.job import Outcome
from hw_models.instructions import Compute, InstructionTable, base_name
from hw_models.quantities import PS_PER_S

BETWEEN_LAYERS = "(kernel launches)"
"""What belongs to no layer."""


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
    runs: int = 0
    critical_ps: dict[str, int] = field(default_factory=partial(defaultdict, int))
    under_way_ps: dict[str, int] = field(default_factory=partial(defaultdict, int))
    """Filled only where nothing is critical."""
    works: dict[int, int] = field(default_factory=partial(defaultdict, int))
    """How many instructions do each work of the program."""


def layers_of(outcome: Outcome) -> list[LayerFigures]:
    """Return the figures of the layers of a run, in the order in which they first begin."""
    trace, table = outcome.result.trace, outcome.program.instructions
    names = _names(table)
    sums = {name: _Sums() for name in _by_begin(table, trace.start_ps, names)}
    counts = Counter(table.layer_runs)
    for layer_run, count in counts.items():
        sums[names[layer_run]].runs += 1 if layer_run >= 0 else count
    for (layer_run, number), count in Counter(zip(table.layer_runs, table.work_of, strict=True)).items():
        sums[names[layer_run]].works[number] += count
    for step in trace.critical_steps:
        sums[names[table.layer_runs[step.position]]].critical_ps[step.paced_by] += step.end_ps - step.start_ps
    never_critical = {layer_run for layer_run in counts if not sums[names[layer_run]].critical_ps}
    for position in compress(range(len(table)), map(never_critical.__contains__, table.layer_runs)):
        under_way_ps = trace.end_ps[position] - trace.start_ps[position]
        sums[names[table.layer_runs[position]]].under_way_ps[base_name(trace.limits[position])] += under_way_ps
    moved_bytes = outcome.result.moved_bytes
    return [_figures(name, found, moved_bytes, outcome.record.iterations) for name, found in sums.items()]


def _by_begin(table: InstructionTable, start_ps: Sequence[int], names: Mapping[int, str]) -> list[str]:
    """Return the layers in the order in which they first begin, of those of one moment the first in the program."""
    begun = sorted(range(len(table)), key=start_ps.__getitem__)  # stable: the program's order is kept
    runs = dict.fromkeys(map(table.layer_runs.__getitem__, begun))
    return list(dict.fromkeys([names[layer_run] for layer_run in runs]))


def _names(table: InstructionTable) -> dict[int, str]:
    """Return the layer of every run, by the label of the first thing that it computes."""
    computes = [isinstance(work.payload, Compute) for work in table.works]
    labelled = list(zip(reversed(table.layer_runs), reversed(table.labels), strict=True))  # the first comes last
    computing = compress(labelled, map(computes.__getitem__, reversed(table.work_of)))
    return {**dict(labelled), **dict(computing), -1: BETWEEN_LAYERS}


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
