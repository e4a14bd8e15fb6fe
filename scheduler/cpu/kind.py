"""The kind of machine that a CPU with caches is: all that it offers, in one record."""

from dsascape.hw_models import Cpu, cpu_dtypes, cpu_energy, cpu_machine, cpu_summary
from dsascape.scheduler.cpu.convolutions import with_algorithms_that_pay
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower
from dsascape.scheduler.cpu.pins import CpuPin
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.search.tiling import KnownTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.scheduler.kinds.kind import LoopKernels, MachineKind, Pinning
from dsascape.workloads.analysis import Analysis


def _costs(
    spec: Cpu, parts: int, dtype: str, tuning: CpuTuning | None, known: KnownTiles | None, analysis: Analysis
) -> CpuCosts:
    del parts  # one
    return CpuCosts(CpuView(spec, tuning or CpuTuning()), analysis, dtype, known)


def _loops_text(schedule: CpuSchedule, spec: Cpu, number: int) -> str:
    """Return a kernel of a schedule, and its loops."""
    del spec
    kernel = schedule.runs[number]
    return f"# {kernel}\n{kernel.program}"


def _why_slow(layer: Layer) -> str:
    """Return why the product of a layer without an anchor takes long; empty for other layers."""
    if layer.contraction is None or anchored_nest(layer) is not None or parts_of(layer):
        return ""
    return "its product is computed element by element, as no vector loads its operands as they lie"


CPU = MachineKind(
    spec=Cpu,
    tuning=CpuTuning,
    costs_type=CpuCosts,
    schedule_type=CpuSchedule,
    new_cache=KnownTiles,
    preferred_dtypes=("fp32", "bf16", "fp16", "int8"),
    dtypes=cpu_dtypes,
    summary=cpu_summary,
    costs=_costs,
    schedule=with_algorithms_that_pay,
    lower=lower,
    machine=cpu_machine,
    energy=cpu_energy,
    loops=LoopKernels(with_source=CpuCosts.with_kernels, text=_loops_text),
    why_slow=_why_slow,
    pins=Pinning[CpuCosts, CpuPin](CpuPin, CpuCosts.with_pins),
    json="dsascape.scheduler.cpu.schedule.json",
)
