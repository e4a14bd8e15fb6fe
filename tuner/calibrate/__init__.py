"""A description of this machine: what the system tells of it, and what small kernels show."""

from tuner.calibrate.description import host_spec, host_yaml
from tuner.calibrate.facts import HostFacts, local_facts
from tuner.calibrate.figures import Figures
from tuner.calibrate.plan import ProbeShape
from tuner.calibrate.run import calibrate

__all__ = ["Figures", "HostFacts", "ProbeShape", "calibrate", "host_spec", "host_yaml", "local_facts"]
