"""The kind of machine that a GPU is: all that it offers, in one record."""

from typing import Any

from dsascape.hw_models import Gpu, gpu_dtypes, gpu_energy, gpu_machine, gpu_summary
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.pins import GpuPin
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.tiling import KnownTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kinds.kind import MachineKind
from dsascape.workloads.analysis import Analysis


def _costs(spec: Gpu, parts: int, dtype: str, tuning: GpuTuning | None, known: Any, analysis: Analysis) -> GpuCosts:
    del parts  # one
    return GpuCosts(GpuView(spec, dtype, tuning or GpuTuning()), analysis, known)


GPU = MachineKind(
    spec=Gpu,
    tuning=GpuTuning,
    preferred_dtypes=("fp16", "fp32", "bf16", "int8"),
    dtypes=gpu_dtypes,
    summary=gpu_summary,
    new_cache=KnownTiles,
    costs=_costs,
    schedule=kernel_by_kernel,
    schedule_type=GpuSchedule,
    lower=lower,
    machine=gpu_machine,
    energy=gpu_energy,
    pin=GpuPin,
    json="dsascape.scheduler.gpu.schedule_json",
)
