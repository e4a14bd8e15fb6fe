"""Asking questions at scale: experiment files, sweeps, reports, the command line, the same from Python."""

from experiments.api import simulate, sweep
from experiments.evaluate import Outcome, evaluate
from experiments.points import DesignPoint, RunRecord, Workload
from hw_models import load_hardware, with_values
from workloads import load_network

__all__ = [
    "DesignPoint",
    "Outcome",
    "RunRecord",
    "Workload",
    "evaluate",
    "load_hardware",
    "load_network",
    "simulate",
    "sweep",
    "with_values",
]
