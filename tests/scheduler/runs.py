"""Networks taken from policy to simulated program, and figures derived from such a run independently."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dsascape.hw_models import (
    Buffer,
    ClusteredDsa,
    Compute,
    Instruction,
    Program,
    SimulationResult,
    Transfer,
    dsa_energy,
    dsa_machine,
    simulate,
    with_values,
)
from dsascape.scheduler import (
    LayerRun,
    Placing,
    Policy,
    Schedule,
    ScheduleError,
    make_policy,
    policy_types,
    schedule_network,
)
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import Graph, Operations
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import full_box
from dsascape.workloads.regions import required_regions
from tests.tiers import examples

EXAMPLES = settings(max_examples=examples(25, few=3))
"""Number of examples drawn for claims about each policy by itself."""
DTYPE = "fp16"
OUT_OF_STEP = 0.25
"""How far lockstep may be off where layers use different numbers of cores: idle ones load their weights early."""
EVERY_POLICY = pytest.mark.parametrize("name", sorted(policy_types()))
DIRECT_POLICIES = tuple(sorted({*policy_types()} - {"searched"}))
"""All but the one that runs the others: whole networks under it take minutes, and its schedules are made by these."""
EVERY_DIRECT_POLICY = pytest.mark.parametrize("name", DIRECT_POLICIES)


_SHORT: Mapping[str, Mapping[str, object]] = {
    "dnnfusion": {"rewriting": False},
    "searched": {
        "rivals": ("fixed-pattern", "astitch"),
        "rewriting": False,
        "most_kernels": 8,
        "most_neighbours": 1,
    }
}
"""Options of policies that run others, so that they do not take as long as all of these together; and of one that may
plan a rewritten network, where the one given is looked at."""


@st.composite
def policies(draw: st.DrawFn, name: str) -> Policy:
    """Draw the policy ``name`` with some of its options; options whose values cannot be listed keep their default."""
    chosen: dict[str, object] = dict(_SHORT.get(name, {}))
    for option, declared in get_type_hints(policy_types()[name]).items():
        if declared is bool:
            chosen[option] = draw(st.booleans())
        elif get_origin(declared) is Literal:
            chosen[option] = draw(st.sampled_from(get_args(declared)))
    return make_policy(name, chosen)


def costs_on(spec: ClusteredDsa, graph: Graph) -> DsaCosts:
    """Return what is known of the network on the machine, all of whose clusters are in use."""
    return DsaCosts(DsaView(spec, spec.clusters), Analysis(graph), DTYPE)


def schedule_with(policy: Policy, costs: DsaCosts) -> Schedule:
    """Return the policy's schedule of its own plan for the network and the machine of ``costs``."""
    placing = Placing(hardware=costs.view.spec, parts=costs.view.clusters, dtype=costs.dtype)
    schedule = schedule_network(policy, placing, costs)
    assert isinstance(schedule, Schedule)
    return schedule


def schedule_of(policy: Policy, graph: Graph, spec: ClusteredDsa) -> Schedule:
    """Return the policy's schedule of its own plan, on all clusters."""
    return schedule_with(policy, costs_on(spec, graph))


def simulated(program: Program, spec: ClusteredDsa) -> SimulationResult:
    """Return what the machine makes of a program."""
    return simulate(program, dsa_machine(spec), dsa_energy(spec))


@dataclass(frozen=True)
class Run:
    """A network on a machine, all the way."""

    graph: Graph
    spec: ClusteredDsa
    schedule: Schedule
    program: Program
    result: SimulationResult


def drawn_schedule(policy: Policy, graph: Graph, spec: ClusteredDsa) -> Schedule:
    """Return the schedule of a draw; one that the machine is too small for is not what the test is about."""
    try:
        return schedule_of(policy, graph, spec)
    except ScheduleError:
        assume(False)
        raise


def run_of(policy: Policy, graph: Graph, spec: ClusteredDsa) -> Run:
    """Return the run; a draw that the machine is too small for is not what the test is about."""
    schedule = drawn_schedule(policy, graph, spec)
    program = lower(schedule, DsaView(spec, spec.clusters))
    return Run(graph, spec, schedule, program, simulated(program, spec))


def runs_of(schedule: Schedule) -> list[LayerRun]:
    return list(schedule.runs)


def computed(run: Run) -> dict[str, int]:
    """Return the products and the special operations of one cluster, by the cores that take part in each."""
    total = {"macs": 0, "special": 0}
    for instruction in run.program.instructions:
        work = instruction.payload
        if isinstance(work, Compute):
            cores = run.program.executions(instruction) // run.spec.clusters
            total["macs"] += work.macs * cores
            total["special"] += work.special * cores
    return total


def necessary(graph: Graph) -> Operations:
    """Return the operations behind the results: a stride may leave out rows, which nobody has to compute."""
    results = {name: full_box(graph.tensors[name].shape) for name in graph.outputs}
    regions = required_regions(graph, range(len(graph.ops)), results)
    total = Operations()
    for nest in (nest for op in graph.ops for nest in op.nests):
        ranges = nest.ranges_for(regions[nest.write.tensor]) if nest.write.tensor in regions else None
        if ranges is not None:
            total += nest.operations([hi - lo for lo, hi in ranges])
    return total


def held(schedule: Schedule, name: str, slices: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which elements of a tensor the ``slices`` hold."""
    mask = np.zeros(schedule.graph.tensors[name].shape, bool)
    for each in (schedule.slices[number] for number in slices):
        assert each.tensor == name
        mask[tuple(slice(lo, hi) for lo, hi in each.box)] = True
    return mask


def traffic(program: Program) -> dict[str, int]:
    """Return the bytes that cross each kind of memory's port, from the instructions alone."""
    total = {"local_buffer": 0, "global_buffer": 0, "ddr": 0}
    for instruction in program.instructions:
        times, work = program.executions(instruction), instruction.payload
        if isinstance(work, Transfer):
            total[work.source] += work.size_bytes * times
            total[work.destination] += work.size_bytes * work.fan_out * times
        elif isinstance(work, Compute):
            for memory, size_bytes in work.traffic:
                total[memory] += size_bytes * times
    return total


@st.composite
def at_other_speeds(draw: st.DrawFn, spec: ClusteredDsa) -> ClusteredDsa:
    """Draw a machine with the memories of ``spec`` and other speeds: a program may count on no timing."""
    rate = st.sampled_from(["100 MB/s", "4 GB/s", "1 TB/s"])
    values: dict[str, object] = {
        "dma.load.bandwidth": draw(rate), "dma.store.bandwidth": draw(rate), "on_chip_path.bandwidth": draw(rate),
        "dma.load.startup": draw(st.sampled_from(["0 ps", "50 us"])),
    }  # fmt: skip
    values |= {f"units.{unit}.efficiency": draw(st.sampled_from([0.001, 1.0])) for unit in spec.units}
    changed = with_values(spec, values)
    assert isinstance(changed, ClusteredDsa)
    return changed


@dataclass(frozen=True)
class Timed:
    """The instructions of one layer run: unit, what it does for the layer, when it begins and ends."""

    spans: list[tuple[str, str, int, int]]

    def first_ps(self, unit: str, what: str) -> float:
        """Return when the first transfer of a kind begins; never, if there is none."""
        return min((begin for u, label, begin, _ in self.spans if u == unit and label.endswith(what)), default=math.inf)

    def last_ps(self, *units: str) -> int:
        """Return when the last instruction on ``units`` ends."""
        return max((end for unit, _, _, end in self.spans if unit in units), default=0)

    def begin_ps(self, *units: str) -> float:
        return min((begin for unit, _, begin, _ in self.spans if unit in units), default=math.inf)

    def first_end_ps(self, *units: str) -> int:
        return min((end for unit, _, _, end in self.spans if unit in units), default=0)


def timed(run: Run, number: int) -> Timed:
    """Return layer run ``number`` as it was simulated."""
    trace = run.result.trace
    return Timed(
        [
            (i.unit, i.label.removeprefix(run.schedule.runs[number].layer.sink.name), begin, end)
            for i, begin, end in zip(trace.instructions, trace.start_ps, trace.end_ps, strict=True)
            if i.layer_run == number
        ]
    )


def addressed(run: Run) -> list[tuple[str, int, int, int, int]]:
    """Return of each buffer with an address: memory, when it is taken and given back, first byte and byte behind it."""
    program, trace = run.program, run.result.trace
    makespan_ps = trace.makespan_ps
    taken: dict[int, tuple[int, int]] = {}
    given_back: dict[int, int] = {}
    for position, instruction in enumerate(program.instructions):
        for number in instruction.allocates:
            taken[number] = position, trace.start_ps[position]
        for number in instruction.frees:
            given_back[number] = max(given_back.get(number, 0), trace.end_ps[position])
    found = []
    for number, buffer in enumerate(program.buffers):
        if buffer.address is not None:
            position, begin = taken[number]
            high = buffer.address + bytes_of_one_copy(program, buffer, program.instructions[position])
            found.append((buffer.memory, begin, given_back.get(number, makespan_ps), buffer.address, high))
    return found


def bytes_of_one_copy(program: Program, buffer: Buffer, by: Instruction) -> int:
    """Return what each copy of a buffer's memory holds of it when all who do ``by`` have allocated their part."""
    memory_is_of, unit_is_of = program.memories[buffer.memory], program.units[by.unit]
    in_all = buffer.size_bytes * buffer.fan_out
    if memory_is_of == "cluster" and unit_is_of == "core":
        return in_all * (by.participants or program.width("core"))  # each core brings a part
    if memory_is_of == "core" and unit_is_of == "cluster":
        return -(-in_all // program.width("core"))  # each core gets one
    return in_all


def overlaps(run: Run) -> list[tuple[object, object]]:
    """Return the buffers with an address that lie on each other in one memory at one moment, pair by pair."""
    found: list[tuple[object, object]] = []
    there: dict[str, list[tuple[str, int, int, int, int]]] = {}
    for one in sorted(addressed(run), key=lambda life: life[1]):
        memory, begin, end, low, high = one
        there[memory] = [life for life in there.get(memory, []) if life[2] > begin]
        if end > begin:
            found += [(life, one) for life in there[memory] if low < life[4] and life[3] < high]
        there[memory].append(one)
    return found
