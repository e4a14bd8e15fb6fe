"""Kernel costs: all that a planner may ask of a machine, whatever kind it is.

Every machine kind implements `KernelCosts` for one network (`scheduler.kinds.table`). A planner that is given one
knows no hardware spec; what it decides holds for any machine that answers alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dsascape.workloads.analysis import Analysis


@dataclass(frozen=True, slots=True)
class OnChipMemory:
    """One level of memory in which a schedule can keep tensors from one operator to the next."""

    name: str
    outputs_bytes: int
    """Of one copy: what outputs may take; weights and tiles that pass through have the rest."""
    copies: int
    """Copies that one kernel reaches: one per core, or one."""
    bytes_per_s: float
    """Between all copies together and the next memory inwards (the compute units, for the innermost)."""
    startup_bytes: int
    """What its transfers move in the time that one takes to start up: smaller ones mostly start up."""


KernelSeconds = Callable[[Sequence[int]], float]
"""Seconds of operators, ascending, as one kernel, from whoever knows."""


class KernelCosts(Protocol):
    """One network's kernels on one part of a machine that runs a kernel at a time: a cluster, a whole GPU or CPU."""

    @property
    def analysis(self) -> Analysis:
        """The network, with what has been derived from it."""

    def with_network(self, analysis: Analysis) -> "KernelCosts":
        """Return the costs of another network on the same machine."""

    @property
    def dtype(self) -> str:
        """What the network is computed in."""

    @property
    def cores(self) -> int:
        """Cores that a kernel is spread over."""

    @property
    def on_chip(self) -> tuple[OnChipMemory, ...]:
        """Memories that a schedule manages, innermost first; empty where caches decide by themselves what stays."""

    @property
    def off_chip_bytes_per_s(self) -> float:
        """Share of the off-chip bandwidth when every such part of the machine is at work."""

    @property
    def launch_s(self) -> float:
        """Seconds to start one kernel."""

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the estimated seconds of operators, ascending, as one kernel, its launch included.

        Inputs come from outside the chip and outputs go there, but for what caches have of them. Nothing to do takes no
        time; what the machine cannot run as one kernel takes for ever (``math.inf``).
        """

    def least_s(self, ops: Sequence[int]) -> float:
        """Return seconds that `kernel_s` is no less than, known sooner than itself; zero where nothing is known."""

    def most_s(self, ops: Sequence[int]) -> float:
        """Return seconds that `kernel_s` is no more than, known sooner than itself; infinite where nothing is known."""
