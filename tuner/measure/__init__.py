"""Measurement of generated code: kernels run in a separate process, checked, repeated and described."""

from dsascape.tuner.measure.address import BUNDLE, LOCAL, AddressError, remote_address
from dsascape.tuner.measure.candidates import CandidateRunner
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.job import Job, job_of_schedule
from dsascape.tuner.measure.records import Budget, Device, KernelMeasurement, Measurement, Timing
from dsascape.tuner.measure.run import MeasureError, check_installed, compile_for, compile_for_gpu, measure_plan
from dsascape.tuner.measure.targets import (
    TargetError,
    check_cpu_target,
    check_target,
    cuda_architecture,
    gpu_here,
    is_gpu_target,
    runs_here,
)
from dsascape.tuner.measure.tasks import CandidateBudget, CandidateResult, KernelTask, PreparedTask

__all__ = [
    "BUNDLE", "LOCAL", "AddressError", "Budget", "CandidateBudget", "CandidateResult", "CandidateRunner", "Device",
    "Job", "KernelMeasurement", "KernelTask", "MeasureError", "Measurement", "PreparedTask", "TargetError", "Timing",
    "check_cpu_target", "check_installed", "check_target", "compile_for", "compile_for_gpu", "cuda_architecture",
    "gpu_here", "is_gpu_target", "job_of_schedule", "measure_plan", "remote_address", "runs_here", "usable_cores",
]  # fmt: skip
