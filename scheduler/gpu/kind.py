"""The kind of machine that a GPU is: all that it offers, in one record."""

from collections.abc import Sequence

from dsascape.hw_models import Gpu, gpu_dtypes, gpu_energy, gpu_machine, gpu_summary
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.library_rows import with_rows
from dsascape.scheduler.gpu.lower import library_times, lower
from dsascape.scheduler.gpu.pins import GpuPin
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.tiling import KnownTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kinds.kind import LoopKernels, MachineKind, Pinning, PowerLimit
from dsascape.workloads.analysis import Analysis


def _costs(
    spec: Gpu, parts: int, dtype: str, tuning: GpuTuning | None, known: KnownTiles | None, analysis: Analysis
) -> GpuCosts:
    del parts  # one
    return GpuCosts(_view(spec, dtype, tuning or GpuTuning()), analysis, known)


def _view(spec: Gpu, dtype: str, tuning: GpuTuning) -> GpuView:
    """Return the machine as it launches kernels under ``tuning``, without the host where that is never late."""
    if tuning.host == "ahead":
        launching = spec.launched_in_graphs if tuning.graphs else spec
        return GpuView(launching.model_copy(update={"host": None}), dtype, tuning)
    if tuning.graphs:
        raise ScheduleError(f"tuning.graphs issues all kernels as one; tuning.host is {tuning.host}, needs ahead")
    return GpuView(spec.hosted, dtype, tuning)


def _library(spec: Gpu, tuning: GpuTuning | None, schedule: GpuSchedule) -> Sequence[float]:
    if spec.library is None:
        return ()
    view = _view(spec, schedule.dtype, tuning or GpuTuning())
    return with_rows(library_times(schedule, view), schedule, view)


def _loops_text(schedule: GpuSchedule, spec: Gpu, number: int) -> str:
    """Return a kernel of a schedule, and its loops."""
    del spec  # steps say all
    kernel = schedule.runs[number]
    return f"# {kernel}\n{kernel.program}"


GPU = MachineKind(
    spec=Gpu,
    tuning=GpuTuning,
    costs_type=GpuCosts,
    schedule_type=GpuSchedule,
    new_cache=KnownTiles,
    preferred_dtypes=("fp16", "fp32", "bf16", "int8"),
    dtypes=gpu_dtypes,
    summary=gpu_summary,
    costs=_costs,
    schedule=kernel_by_kernel,
    lower=lower,
    machine=gpu_machine,
    energy=gpu_energy,
    power=PowerLimit(limit_w=lambda spec: spec.power_limit_w, slowed=Gpu.slowed),
    library=_library,
    loops=LoopKernels(with_source=GpuCosts.with_kernels, text=_loops_text),
    pins=Pinning[GpuCosts, GpuPin](GpuPin, GpuCosts.with_pins),
    json="dsascape.scheduler.gpu.schedule_json",
)
