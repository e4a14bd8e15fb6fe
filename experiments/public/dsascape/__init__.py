"""Design-space exploration of machines that run neural networks, from Python.

    import dsascape

    machine = dsascape.with_values(dsascape.load_hardware("stcp920"), {"local_buffer.capacity": "2 MiB"})
    outcome = dsascape.simulate("resnet50", machine, "graphturbo", batch=16)
    print(outcome.record.latency_s, outcome.record.bottleneck)

``simulate`` runs one network on one machine under one policy and returns an ``Outcome``, whose ``record`` (a
``RunRecord``) has the figures; ``sweep`` tries many and returns a pandas table. ``load_network`` and ``load_hardware``
take names or paths; ``network_names``, ``hardware_names`` and ``policy_names`` say what comes along. What the caller
has to mend is raised as one of the exceptions here, all of them ``ValueError``.

Each name is imported when it is first used, so that ``import dsascape`` takes no time.
"""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.api import policy_names, simulate, sweep
    from experiments.job import Outcome
    from experiments.points import RunRecord
    from experiments.version import __version__
    from fusion import FusionError
    from hw_models import AnyHardware, HardwareError, SimulationError, load_hardware, with_values
    from hw_models import preset_names as hardware_names
    from scheduler import Policy, ScheduleError, make_policy
    from workloads import Graph, WorkloadError, load_network
    from workloads import zoo_names as network_names

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
    "network_names",
    "policy_names",
    "simulate",
    "sweep",
    "with_values",
]

_PLACES = {
    "experiments.api": ("policy_names", "simulate", "sweep"),
    "experiments.job": ("Outcome",),
    "experiments.points": ("RunRecord",),
    "experiments.version": ("__version__",),
    "fusion": ("FusionError",),
    "hw_models": ("AnyHardware", "HardwareError", "SimulationError", "load_hardware", "with_values"),
    "scheduler": ("Policy", "ScheduleError", "make_policy"),
    "workloads": ("Graph", "WorkloadError", "load_network"),
}
_HOMES = {name: (module, name) for module, names in _PLACES.items() for name in names} | {
    "hardware_names": ("hw_models", "preset_names"),
    "network_names": ("workloads", "zoo_names"),
}
"""Where each name comes from, and what it is called there."""
_PACKAGES = ("experiments", "fusion", "hw_models", "scheduler", "workloads")
_HERE = Path(__file__).resolve()
_ROOT = _HERE.parents[3] if _HERE.parents[1].name == "public" else _HERE.parents[1]
"""Where these packages are: at the root of the source tree, or beside this one where it is installed."""


if not TYPE_CHECKING:  # to whom a name that is not offered is a mistake

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _check_packages()
        module, own_name = _HOMES[name]
        found = getattr(importlib.import_module(module), own_name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _check_packages() -> None:
    """Raise ``ImportError`` where a package of somebody else has the name of one that is needed here, and hides it.

    A folder that is no package, such as one of data, hides those of an editable install only: they are then put on the
    path, where packages go before folders.
    """
    found = [_place(package) for package in _PACKAGES]
    if None in found and str(_ROOT) not in sys.path:
        sys.path.append(str(_ROOT))
        found = [_place(package) for package in _PACKAGES]
    for package, place in zip(_PACKAGES, found, strict=True):
        if place != _ROOT / package:
            raise ImportError(
                f"dsascape needs its own package {package!r}, but {place or 'another'} is imported instead: rename that"
                " folder, or run Python from another"
            )


def _place(package: str) -> Path | None:
    """Return the folder of the package that would be imported; None for a folder that is no package."""
    spec = find_spec(package)
    return Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
