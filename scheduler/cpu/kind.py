"""The kind of machine that a CPU with caches is: all that it offers, in one record."""

from typing import Any

from hw_models import Cpu, cpu_dtypes, cpu_energy, cpu_machine, cpu_summary, simulate
from scheduler.cpu.costs import CpuCosts
from scheduler.cpu.lower import lower
from scheduler.cpu.schedule import CpuSchedule, kernel_by_kernel
from scheduler.cpu.schedule_json import read_schedule, schedule_json
from scheduler.cpu.tiling import KnownTiles
from scheduler.cpu.tuning import CpuTuning
from scheduler.cpu.view import CpuView
from scheduler.machine_kind import MachineKind, Simulated
from workloads.analysis import Analysis


def _one_part(spec: Cpu) -> int:
    del spec
    return 1


def _costs(
    spec: Cpu, parts: int, dtype: str, tuning: CpuTuning | None, known: Any, analysis: Analysis
) -> CpuCosts:
    del parts  # one
    return CpuCosts(CpuView(spec, tuning or CpuTuning()), analysis, dtype, known)


def _run(schedule: CpuSchedule, costs: CpuCosts) -> Simulated:
    program, spec = lower(schedule, costs), costs.view.spec
    return Simulated(program, simulate(program, cpu_machine(spec), cpu_energy(spec)))


CPU = MachineKind(
    tuning=CpuTuning,
    preferred_dtypes=("fp32", "bf16", "fp16", "int8"),
    parts=_one_part,
    dtypes=cpu_dtypes,
    summary=cpu_summary,
    known=KnownTiles,
    costs=_costs,
    schedule=kernel_by_kernel,
    schedule_type=CpuSchedule,
    lower=lower,
    run=_run,
    machine=cpu_machine,
    energy=cpu_energy,
    write=schedule_json,
    read=read_schedule,
)
