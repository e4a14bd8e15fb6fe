"""Measured times of real code: kernels in a process of their own, checked, repeated, described."""

from tuner.measure.cross import compile_plan
from tuner.measure.device import usable_cores
from tuner.measure.job import Job
from tuner.measure.records import Budget, Device, KernelMeasurement, Measurement, Timing
from tuner.measure.run import MeasureError, check_installed, measure_plan
from tuner.measure.targets import TargetError, runs_here

__all__ = [
    "Budget", "Device", "Job", "KernelMeasurement", "MeasureError", "Measurement", "TargetError", "Timing",
    "check_installed", "compile_plan", "measure_plan", "runs_here", "usable_cores",
]  # fmt: skip
