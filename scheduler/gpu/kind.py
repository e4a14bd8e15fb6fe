"""The kind of machine that a GPU is: all that it offers, in one record."""

from typing import Any

from hw_models import Gpu, gpu_dtypes, gpu_energy, gpu_machine, gpu_summary
from scheduler.gpu.costs import GpuCosts
from scheduler.gpu.lower import lower
from scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from scheduler.gpu.tiling import KnownTiles
from scheduler.gpu.tuning import GpuTuning
from scheduler.gpu.view import GpuView
from scheduler.machine_kind import MachineKind
from workloads.analysis import Analysis


def _costs(spec: Gpu, parts: int, dtype: str, tuning: GpuTuning | None, known: Any, analysis: Analysis) -> GpuCosts:
    del parts  # one
    return GpuCosts(GpuView(spec, dtype, tuning or GpuTuning()), analysis, known)


GPU = MachineKind(
    tuning=GpuTuning,
    preferred_dtypes=("fp16", "fp32", "bf16", "int8"),
    dtypes=gpu_dtypes,
    summary=gpu_summary,
    known=KnownTiles,
    costs=_costs,
    schedule=kernel_by_kernel,
    schedule_type=GpuSchedule,
    lower=lower,
    machine=gpu_machine,
    energy=gpu_energy,
    json="scheduler.gpu.schedule_json",
)
