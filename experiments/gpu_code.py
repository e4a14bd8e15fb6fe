"""A design point on a GPU as code: the schedule that is simulated, compiled for the architecture asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.evaluate import evaluate
from experiments.measured_point import MEASURED_DTYPE
from experiments.points import DesignPoint
from hw_models import Gpu, HardwareError, load_hardware
from scheduler.gpu.schedule import GpuSchedule
from tuner.measure import MeasureError, Measurement, compile_for_gpu, cuda_architecture

_MACHINES = {"sm_60": "p100", "sm_70": "v100", "sm_80": "a100", "sm_90": "h100"}
"""Whose tiles code for an architecture has, unless a machine is given."""
_OTHER_MACHINE = "a100"
_OPENCL_MACHINE = "adreno640"


def gpu_asked_for(hardware: str | None, target: str) -> Gpu:
    """Return the GPU that tiles are chosen for; raise ``HardwareError`` for a machine that is none."""
    architecture = cuda_architecture(target)
    usual = _OPENCL_MACHINE if architecture is None else _MACHINES.get(architecture.rstrip("a"), _OTHER_MACHINE)
    spec = load_hardware(hardware or usual)
    if not isinstance(spec, Gpu):
        raise HardwareError(f"{spec.name}: is no GPU; target has {target!r}, whose tiles are chosen for one")
    return spec


def compiled_point(point: DesignPoint, target: str, path: Path) -> tuple[Measurement, dict[str, Any]]:
    """Write the code of ``point`` to files named ``path``; return what there is of it, and what is predicted.

    Code multiplies on lanes, so that is what tiles are chosen for and what is predicted, with an L2 that the run before
    has left warm. Raises ``MeasureError`` for another dtype than fp32, and what `evaluate` and `compile_for_gpu` raise.
    """
    spec, workload = point.hardware, point.workload
    assert isinstance(spec, Gpu)
    if workload.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in {MEASURED_DTYPE}")
    tuning = {**point.tuning, "tensor_units": False, "warm_l2": True}
    outcome = evaluate(replace(point, workload=replace(workload, dtype=MEASURED_DTYPE), tuning=tuning))
    if not isinstance(outcome.schedule, GpuSchedule):
        raise MeasureError(f"{outcome.record.policy}: its schedule is not one of a GPU's grids")
    found = compile_for_gpu(outcome.schedule, spec.sms.warp, target, path)
    return found, found.as_json() | {"hardware": spec.name, "predicted_s": outcome.record.latency_s}
