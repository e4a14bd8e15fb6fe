"""A design point: one network on one machine under one policy; and the figures that come of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from experiments.version import __version__
from hw_models import AnyHardware
from scheduler import Policy, policy_label
from workloads import zoo_entry

Figure = float | int | str | None


@dataclass(frozen=True, slots=True)
class Workload:
    """A network and the sizes to run it at; None leaves the network's own."""

    model: str
    """Name in the zoo, or path of an ONNX file."""
    batch: int | None = None
    """Of the whole machine."""
    sequence: int | None = None
    dtype: str | None = None
    simplify: bool = False

    @property
    def label(self) -> str:
        """What reports call it."""
        name = Path(self.model).stem if self.model.endswith(".onnx") else self.model
        return f"{name}-{self.sequence}" if self.sequence is not None else name


@dataclass(frozen=True)
class DesignPoint:
    """One question to the simulator."""

    workload: Workload
    hardware: AnyHardware
    policy: Policy
    swept: Mapping[str, str] = field(default_factory=dict)
    """The swept values that led here, as they stand in the experiment file."""

    @cached_property
    def key(self) -> str:
        """Hash of everything that the figures depend on: network, machine, policy, version."""
        policy = type(self.policy)
        content = {
            "version": __version__,
            "network": content_hash(self.workload.model),
            "workload": {**asdict(self.workload), "model": self.workload.label},
            "hardware": self.hardware.model_dump(by_alias=True),
            "policy": [policy.__module__, policy.__qualname__, policy_label(self.policy)],
            "swept": dict(self.swept),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32]


@lru_cache(maxsize=256)
def content_hash(model: str) -> str:
    """Return a hash of the network's file, so that a changed file is a new network."""
    data = Path(model).read_bytes() if model.endswith(".onnx") else zoo_entry(model).read_bytes()
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class RunRecord:
    """What a design point came to. Times in seconds, energies in joules."""

    model: str
    hardware: str
    policy: str
    batch: int
    dtype: str
    latency_s: float
    throughput_per_s: float
    energy_j: float
    kernels: int
    traffic_bytes: Mapping[str, int]
    utilisation: Mapping[str, float]
    peak_occupancy_bytes: Mapping[str, int]
    tensor_scopes: Mapping[str, int]
    bottleneck: str
    simulated_events: int
    wall_s: float

    def as_json(self) -> dict[str, Any]:
        """Return the record as ``simulate --json`` prints it."""
        return asdict(self)

    def flat(self) -> dict[str, Figure]:
        """Return the record as a table's row: dictionaries become columns like ``traffic_bytes.ddr``."""
        row: dict[str, Figure] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                row.update({f"{name}.{key}": figure for key, figure in value.items()})
            else:
                row[name] = value
        return row
