"""A machine kind from outside dsascape: one engine beside one memory, which runs a network kernel by kernel.

Install it, and machine files may have ``kind: tiny_npu``:

    pip install ./examples/tiny_npu
    dsascape simulate squeezenet --hardware examples/tiny_npu/tiny.yaml --policy fixed-pattern

docs/architecture.md says what each part is for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from dsascape.fusion import FusionPlan, OnChipMemory
from dsascape.hw_models import (
    Compute,
    EnergyModel,
    Instruction,
    Machine,
    MachineSpec,
    MachineSummary,
    Members,
    Memory,
    Program,
    ProgramError,
    Service,
    Unit,
)
from dsascape.hw_models.common.cached_parts import Dram
from dsascape.hw_models.simulation.instructions import CHIP, Payload
from dsascape.hw_models.text.quantities import PS_PER_S, Hertz
from dsascape.scheduler import MachineKind
from dsascape.scheduler.kernels.cut import single_layer
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.places import places_of
from dsascape.scheduler.kernels.schedule import Kernel, KernelSchedule
from dsascape.scheduler.kernels.schedule_file import KernelRecord, ScheduleFile, parsed, read_kernels, written
from dsascape.workloads.analysis import Analysis

KIND, ENGINE, DRAM, DTYPE = "tiny_npu", "engine", "dram", "int8"


# 1. The spec: what a machine file says.


class TinyNpu(MachineSpec):
    """An engine and the memory behind it."""

    kind: Literal["tiny_npu"]
    clock_hz: Hertz = Field(alias="clock")
    """Clock of the engine."""
    macs_per_cycle: int = Field(gt=0)
    """Multiply-accumulates per cycle; other operations are as fast."""
    dram: Dram

    def peak_macs_per_s(self, dtype: str) -> float:
        """Return multiply-accumulates per second; 0 for a dtype other than int8."""
        return self.macs_per_cycle * self.clock_hz if dtype == DTYPE else 0.0


# 2. The machine that is simulated: its units, its memories, and how long a payload takes if nothing else runs.


def machine(spec: TinyNpu) -> Machine:
    """Return one engine and one memory."""
    memory = Memory(DRAM, CHIP, spec.dram.capacity_bytes, spec.dram.sustained_bytes_per_s)
    engine = Unit(ENGINE, CHIP, (Members(1, lambda payload, blocks: service(spec, payload)),))
    return Machine(spec.name, (), {DRAM: memory}, {ENGINE: engine})


def service(spec: TinyNpu, payload: Payload) -> Service:
    """Return the time of a payload: the longer of computing and moving its bytes, after the memory's latency."""
    if not isinstance(payload, Compute):
        raise ProgramError(f"the engine only computes; it has no {type(payload).__name__}")
    size = sum(size for _, size in payload.traffic)
    done = payload.macs + payload.simple + payload.special
    computing_ps = math.ceil(done * PS_PER_S / spec.peak_macs_per_s(DTYPE))
    moving_ps = math.ceil(size * PS_PER_S / spec.dram.sustained_bytes_per_s)
    limit = DRAM if moving_ps > computing_ps else ENGINE
    return Service(round(spec.dram.latency_ps), max(computing_ps, moving_ps), size, ((DRAM, 1.0),), limit)


def energy(spec: TinyNpu) -> EnergyModel:
    """Return the energy of operations and bytes, in picojoules."""
    return EnergyModel(
        machine=spec.name, mac_pj={DTYPE: 0.2}, simple_pj=0.1, special_pj=0.5, byte_pj={DRAM: 20.0}, static_power_w=0.0
    )


def summary(spec: TinyNpu) -> MachineSummary:
    """Return the machine's line in lists."""
    return MachineSummary(
        cores=1, arrangement="1", dtype=DTYPE, peak_macs_per_s=spec.peak_macs_per_s(DTYPE), on_chip=(),
        off_chip_bytes_per_s=spec.dram.sustained_bytes_per_s,
    )  # fmt: skip


# 3. The costs: what planners may ask of the machine (`fusion.costs.KernelCosts`).


@dataclass(frozen=True)
class Tuning:
    """Numbers of the scheduler, which ``--set tuning.NAME`` changes: it has none."""


@dataclass(frozen=True)
class View:
    """A machine and the dtype in which it computes."""

    spec: TinyNpu
    dtype: str


@dataclass(frozen=True)
class Costs:
    """Costs of one network's kernels."""

    view: View
    analysis: Analysis
    cores: int = 1
    on_chip: tuple[OnChipMemory, ...] = ()
    launch_s: float = 0.0

    def with_network(self, analysis: Analysis) -> "Costs":
        """Return the costs of another network."""
        return Costs(self.view, analysis)

    @property
    def dtype(self) -> str:
        """Data type in which the network is computed."""
        return self.view.dtype

    @property
    def off_chip_bytes_per_s(self) -> float:
        """Bandwidth of the memory."""
        return self.view.spec.dram.sustained_bytes_per_s

    def payload(self, layer: Layer) -> Compute:
        """Return what a kernel computes, and moves: everything that it reads and writes, once."""
        graph = layer.graph
        moved = sum(graph.tensors[name].size_bytes for name in (*layer.inputs, *layer.outputs))
        work = [graph.ops[op].operations for op in layer.ops]
        return Compute(
            dtype=self.dtype, macs=sum(each.macs for each in work), simple=sum(each.simple for each in work),
            special=sum(each.special for each in work), traffic=((DRAM, moved),),
        )  # fmt: skip

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the seconds of operators as one kernel."""
        times = [service(self.view.spec, self.payload(layer)) for layer in single_layer(self.analysis, ops)]
        return sum(each.startup_ps + each.duration_ps for each in times) / PS_PER_S

    def least_s(self, ops: Sequence[int]) -> float:
        """Return a lower bound: the time itself."""
        return self.kernel_s(ops)

    def most_s(self, ops: Sequence[int]) -> float:
        """Return an upper bound: the time itself."""
        return self.kernel_s(ops)


def costs(spec: TinyNpu, parts: int, dtype: str, tuning: Any, cache: Any, analysis: Analysis) -> Costs:
    """Return the costs of a network; there is one part, no tuning and nothing worth caching."""
    del parts, tuning, cache
    return Costs(View(spec, dtype), analysis)


# 4. The schedule of any plan, and its program: one instruction for each kernel.


def schedule(plan: FusionPlan, costs: Costs, policy: str) -> KernelSchedule[Kernel]:
    """Return the groups of a plan as kernels, in order; a group of views has none."""
    kernels = [
        Kernel(layer.sink.name, number, layer)
        for number, group in enumerate(plan.groups)
        for layer in single_layer(costs.analysis, group.ops)
    ]
    return KernelSchedule(plan, tuple(kernels), costs.dtype, policy)


def lower(schedule: KernelSchedule[Kernel], costs: Costs) -> Program:
    """Return the program: kernels wait for each other because the engine has one queue."""
    places = places_of([kernel.layer for kernel in schedule.runs], DRAM)
    instructions = [
        Instruction(
            unit=ENGINE, payload=costs.payload(kernel.layer), label=kernel.name, layer_run=number,
            allocates=tuple(places.taken.get(number, ())), frees=tuple(places.freed.get(number, ())),
        )
        for number, kernel in enumerate(schedule.runs)
    ]  # fmt: skip
    return machine(costs.view.spec).program(instructions, places.buffers)


# 5. Schedules as JSON, for --schedule-out and --schedule.


def schedule_json(schedule: KernelSchedule[Kernel]) -> dict[str, Any]:
    """Return the JSON document of a schedule."""
    return written(ScheduleFile[KernelRecord], KIND, schedule, _record)


def _record(kernel: Kernel) -> KernelRecord:
    layer = kernel.layer
    return KernelRecord(output=kernel.name, group=kernel.group, operators=layer.ops)


def read_schedule(data: object, costs: Costs) -> KernelSchedule[Kernel]:
    """Return the schedule of a JSON document; raise ``ScheduleError`` for one of another network."""
    file = parsed(ScheduleFile[KernelRecord], data)
    plan, kernels = read_kernels(file, costs.analysis, costs.dtype, _kernel)
    return KernelSchedule(plan, kernels, costs.dtype, file.policy)


def _kernel(where: str, record: KernelRecord, layer: Layer) -> Kernel:
    del where  # for messages
    return Kernel(record.output, record.group, layer)


# 6. The kind: all of these in one record, which pyproject.toml names.

TINY_NPU = MachineKind(
    spec=TinyNpu,
    tuning=Tuning,
    costs_type=Costs,
    schedule_type=KernelSchedule,
    new_cache=dict,
    preferred_dtypes=(DTYPE,),
    dtypes=lambda spec: frozenset({DTYPE}),
    summary=summary,
    costs=costs,
    schedule=schedule,
    lower=lower,
    machine=machine,
    energy=energy,
    json="tiny_npu",
)
