"""Calibration: machine descriptions from system facts and measured probes."""

from dsascape.tuner.calibrate.description import host_spec, host_yaml
from dsascape.tuner.calibrate.facts import HostFacts, local_facts
from dsascape.tuner.calibrate.figures import Figures
from dsascape.tuner.calibrate.gpu_description import gpu_yaml
from dsascape.tuner.calibrate.gpu_probing import GpuFacts, GpuFigures
from dsascape.tuner.calibrate.host_machine import CalibratedHost, DescribedHost
from dsascape.tuner.calibrate.machine import Calibrated, Described
from dsascape.tuner.calibrate.plan import ProbeShape
from dsascape.tuner.calibrate.run import calibrate

__all__ = [
    "Calibrated", "CalibratedHost", "Described", "DescribedHost", "Figures", "GpuFacts", "GpuFigures", "HostFacts",
    "ProbeShape", "calibrate", "gpu_yaml", "host_spec", "host_yaml", "local_facts",
]  # fmt: skip
