"""Schedules for machine kinds that run kernel by kernel: each kernel is a layer, called one after the other."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.pins.pins import AppliedPin, pins_text
from dsascape.wording import count
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: a layer; machine kinds derive their own class with its tiling."""

    name: str
    group: int
    """Number of the plan's group; a group has several kernels where the machine cannot run it as one."""
    layer: Layer


KernelT = TypeVar("KernelT", bound=Kernel)


@dataclass(frozen=True)
class KernelSchedule(Generic[KernelT]):
    """Schedule of a network: its plan and its kernels in order, on a machine that runs kernel by kernel."""

    plan: FusionPlan
    runs: tuple[KernelT, ...]
    """Kernels in the order in which they are called; groups of views only have none."""
    dtype: str
    policy: str = ""
    pins: tuple[AppliedPin, ...] = ()
    """Decisions that the user fixed before the schedule was made."""

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @property
    def written_out(self) -> Graph:
        """The network that the kernels compute: operators of several steps are written out where they run so."""
        return self.runs[0].layer.graph if self.runs else self.graph

    @property
    def placed_layers(self) -> list[tuple[int, Layer]]:
        """Group of the plan and layer of each kernel, in order."""
        return [(kernel.group, kernel.layer) for kernel in self.runs]

    @property
    def launches(self) -> tuple[tuple[str, int], ...]:
        """None apart from the layers, each of which is launched by itself."""
        return ()

    @property
    def kernels(self) -> int:
        """Number of kernel calls."""
        return len(self.runs)

    @property
    def tensor_scopes(self) -> dict[str, int]:
        """Number of kernel outputs kept in each memory; all are in DRAM, whatever caches hold."""
        return {"dram": sum([len(kernel.layer.outputs) for kernel in self.runs])}

    def __str__(self) -> str:
        lines = [f"schedule {self.policy} of {self.graph.name}: {count(self.kernels, 'kernel')}"]
        return "\n".join([*lines, *(f"  {kernel}" for kernel in self.runs), *pins_text(self.pins)])

    def in_full(self) -> str:
        """Return the schedule as text in full detail."""
        return str(self)


def shown(extents: Extents) -> str:
    """Return ``extents`` as text, such as 1x64x28."""
    return "x".join(map(str, extents)) or "1"
