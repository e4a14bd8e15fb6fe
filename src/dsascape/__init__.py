"""Design-space exploration of machines that run neural networks, from Python.

    import dsascape

    machine = dsascape.with_values(dsascape.load_hardware("stcp920"), {"local_buffer.capacity": "2 MiB"})
    outcome = dsascape.simulate("resnet50", machine, "graphturbo", batch=16)
    print(outcome.record.latency_s, outcome.record.bottleneck)

``simulate`` runs one network on one machine under one policy and returns an ``Outcome``, whose ``record`` (a
``RunRecord``) has the figures; ``sweep`` tries many and returns a pandas table, of which ``report`` makes a page;
``what_if`` changes one value of the machine at a time; ``schedule_document`` gives a schedule to edit, which
``simulate`` runs; ``measure`` runs generated code. ``load_network`` and ``load_hardware`` take names or paths;
``network_names``, ``hardware_names`` and ``policy_names`` say what comes along. What the caller has to mend is raised
as one of the exceptions here, all of them ``ValueError``, and an argument of a wrong type as a ``TypeError``.

Each name is imported when it is first used, so that ``import dsascape`` takes no time.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not Path(__file__).with_name("hw_models").is_dir():
    _mistake = (
        "src/dsascape/hw_models is not a folder: this clone has no symbolic links, which is Windows' default; make them"
        " with git clone -c core.symlinks=true (on Windows in developer mode), or clone in WSL"
    )
    if sys.argv[:1] == ["-m"]:  # python -m dsascape
        sys.stderr.write(f"dsascape: {_mistake}\n")
        raise SystemExit(2)
    raise ImportError(_mistake)

if TYPE_CHECKING:
    from dsascape.experiments.api import measure, policy_names, report, schedule_document, simulate, sweep, what_if
    from dsascape.experiments.point.job import Outcome
    from dsascape.experiments.question.points import RunRecord
    from dsascape.experiments.question.version import __version__
    from dsascape.fusion import FusionError
    from dsascape.hw_models import AnyHardware, HardwareError, SimulationError, load_hardware, with_values
    from dsascape.hw_models import preset_names as hardware_names
    from dsascape.scheduler import Policy, ScheduleError, make_policy
    from dsascape.workloads import Graph, WorkloadError, load_network
    from dsascape.workloads import zoo_names as network_names

__all__ = [
    "AnyHardware",
    "FusionError",
    "Graph",
    "HardwareError",
    "Outcome",
    "Policy",
    "RunRecord",
    "ScheduleError",
    "SimulationError",
    "WorkloadError",
    "__version__",
    "hardware_names",
    "load_hardware",
    "load_network",
    "make_policy",
    "measure",
    "network_names",
    "policy_names",
    "report",
    "schedule_document",
    "simulate",
    "sweep",
    "what_if",
    "with_values",
]

_PLACES = {
    "dsascape.experiments.api": (
        "measure", "policy_names", "report", "schedule_document", "simulate", "sweep", "what_if",
    ),
    "dsascape.experiments.point.job": ("Outcome",),
    "dsascape.experiments.question.points": ("RunRecord",),
    "dsascape.experiments.question.version": ("__version__",),
    "dsascape.fusion": ("FusionError",),
    "dsascape.hw_models": ("AnyHardware", "HardwareError", "SimulationError", "load_hardware", "with_values"),
    "dsascape.scheduler": ("Policy", "ScheduleError", "make_policy"),
    "dsascape.workloads": ("Graph", "WorkloadError", "load_network"),
}
_HOMES = {name: (module, name) for module, names in _PLACES.items() for name in names} | {
    "hardware_names": ("dsascape.hw_models", "preset_names"),
    "network_names": ("dsascape.workloads", "zoo_names"),
}
"""Where each name comes from, and what it is called there."""


if not TYPE_CHECKING:  # to whom a name that is not offered is a mistake

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            meant = importlib.import_module("dsascape.wording").did_you_mean(name, __all__)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")
        module, own_name = _HOMES[name]
        found = getattr(importlib.import_module(module), own_name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
