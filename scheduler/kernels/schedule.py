"""Schedules of kinds of machine that run kernel by kernel: each kernel a layer, one called after the other."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: a layer; kinds add how it is tiled."""

    name: str
    group: int
    """Number of the plan's group, which has several kernels where the machine cannot run it as one."""
    layer: Layer


KernelT = TypeVar("KernelT", bound=Kernel)


@dataclass(frozen=True)
class KernelSchedule(Generic[KernelT]):
    """All that is decided about a network."""

    plan: FusionPlan
    runs: tuple[KernelT, ...]
    """In the order in which they are called; groups that only rename elements have none."""
    dtype: str
    policy: str = ""

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @property
    def written_out(self) -> Graph:
        """The network that the kernels compute: with operators of several steps written out where they are run so."""
        return self.runs[0].layer.graph if self.runs else self.graph

    @property
    def kernels(self) -> int:
        """Calls that do anything."""
        return len(self.runs)

    @property
    def tensor_scopes(self) -> dict[str, int]:
        """Per memory: how many outputs of kernels are kept there; all have a place in DRAM, whatever caches hold."""
        return {"dram": sum([len(kernel.layer.outputs) for kernel in self.runs])}

    def __str__(self) -> str:
        lines = [f"schedule {self.policy} of {self.graph.name}: {self.kernels} kernels"]
        return "\n".join([*lines, *(f"  {kernel}" for kernel in self.runs)])

    def in_full(self) -> str:
        """Return the schedule as text with all that is decided."""
        return str(self)


def shown(extents: Extents) -> str:
    """Return ``extents`` as text, such as 1x64x28."""
    return "x".join(map(str, extents)) or "1"
