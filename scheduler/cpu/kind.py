"""The kind of machine that a CPU with caches is: all that it offers, in one record."""

from typing import Any

from dsascape.hw_models import Cpu, cpu_dtypes, cpu_energy, cpu_machine, cpu_summary
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower
from dsascape.scheduler.cpu.pins import CpuPin
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.search.tiling import KnownTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kinds.kind import MachineKind
from dsascape.workloads.analysis import Analysis


def _costs(
    spec: Cpu, parts: int, dtype: str, tuning: CpuTuning | None, known: Any, analysis: Analysis
) -> CpuCosts:
    del parts  # one
    return CpuCosts(CpuView(spec, tuning or CpuTuning()), analysis, dtype, known)


CPU = MachineKind(
    spec=Cpu,
    tuning=CpuTuning,
    preferred_dtypes=("fp32", "bf16", "fp16", "int8"),
    dtypes=cpu_dtypes,
    summary=cpu_summary,
    new_cache=KnownTiles,
    costs=_costs,
    schedule=kernel_by_kernel,
    schedule_type=CpuSchedule,
    lower=lower,
    machine=cpu_machine,
    energy=cpu_energy,
    pin=CpuPin,
    json="dsascape.scheduler.cpu.schedule.json",
)
