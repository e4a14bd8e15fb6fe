"""A run layer by layer: what each took of the critical path, what it moved, what it was limited by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments.job import Outcome
from hw_models import AnyHardware
from hw_models.demands import Cohort, Demands
from hw_models.program import Compute, Instruction, base_name
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
    traffic_bytes: dict[str, float] = field(default_factory=dict)


def layers_of(outcome: Outcome, hardware: AnyHardware) -> list[LayerFigures]:
    """Return the figures of the layers of a run, in the order in which they first begin."""
    trace, program = outcome.result.trace, outcome.program
    names = _names(trace.instructions)
    sums: dict[str, _Sums] = {}
    demands = Demands(program, kind_of(hardware).machine(hardware))
    for position in sorted(range(len(trace.instructions)), key=lambda i: (trace.start_ps[i], i)):
        instruction = trace.instructions[position]
        found = sums.setdefault(names[instruction.layer_run], _Sums())
        found.runs.add(instruction.layer_run if instruction.layer_run >= 0 else -1 - position)
        found.under_way_ps[base_name(trace.limits[position])] += trace.end_ps[position] - trace.start_ps[position]
        for memory, size in _traffic(instruction, demands):
            found.traffic_bytes[memory] = found.traffic_bytes.get(memory, 0.0) + size
    for step in trace.critical_steps():
        name = names[trace.instructions[step.position].layer_run]
        sums[name].critical_ps[step.paced_by] += step.end_ps - step.start_ps
    return [_figures(name, found, outcome.iterations) for name, found in sums.items()]


def _names(instructions: Sequence[Instruction]) -> dict[int, str]:
    """Return the layer of every run, by the label of the first thing that it computes."""
    names = {-1: BETWEEN_LAYERS}
    for instruction in instructions:
        if isinstance(instruction.payload, Compute):
            names.setdefault(instruction.layer_run, instruction.label)
    for instruction in instructions:
        names.setdefault(instruction.layer_run, instruction.label)
    return names


def _traffic(instruction: Instruction, demands: Demands) -> list[tuple[str, float]]:
    """Return the memories and the bytes that all members move there together for an instruction."""
    bound = not instruction.blocks
    asked = demands.of(instruction) if bound else (demands.of_cohort(instruction, _ONE_BLOCK),)
    times = 1 if bound else instruction.blocks
    return [(base_name(demands.names[port]), size * times) for each in asked for port, size in each.traffic_bytes]


def _figures(name: str, sums: _Sums, iterations: int) -> LayerFigures:
    times = sums.critical_ps or sums.under_way_ps
    return LayerFigures(
        layer=name,
        runs=len(sums.runs) * iterations,
        critical_s=sums.critical_ps.total() / PS_PER_S * iterations,
        limited_by=max(times, key=lambda paced_by: (times[paced_by], paced_by)),
        traffic_bytes={memory: round(size) * iterations for memory, size in sorted(sums.traffic_bytes.items())},
    )
