"""Asking questions at scale: experiment files, sweeps, reports, the command line, the same from Python.

What is offered here is imported when it is first asked for, so that the command line starts at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.api import simulate, sweep
    from experiments.evaluate import Outcome, evaluate
    from experiments.points import DesignPoint, RunRecord, Workload
    from hw_models import load_hardware, with_values
    from workloads import load_network

_HOMES = {
    "simulate": "experiments.api",
    "sweep": "experiments.api",
    "Outcome": "experiments.evaluate",
    "evaluate": "experiments.evaluate",
    "DesignPoint": "experiments.points",
    "RunRecord": "experiments.points",
    "Workload": "experiments.points",
    "load_hardware": "hw_models",
    "with_values": "hw_models",
    "load_network": "workloads",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
