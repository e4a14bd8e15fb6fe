"""Kernel costs: the cost model through which fusion planners see a machine of any kind.

Every machine kind implements `KernelCosts` for one network (`scheduler.kinds.table`). A planner sees no hardware spec,
so its decisions hold for any machine with the same costs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dsascape.workloads.analysis import Analysis


@dataclass(frozen=True, slots=True)
class OnChipMemory:
    """One level of on-chip memory in which a schedule can keep tensors from one operator to the next."""

    name: str
    outputs_bytes: int
    """Bytes of one copy that outputs may occupy; the rest is for weights and for tiles in transit."""
    copies: int
    """Copies that one kernel reaches: one per core, or one."""
    bytes_per_s: float
    """Bandwidth between all copies together and the next memory inwards (the compute units, for the innermost)."""
    startup_bytes: int
    """Bytes moved in the start-up time of one transfer: smaller transfers are dominated by start-up."""


KernelSeconds = Callable[[Sequence[int]], float]
"""Cost function: returns the seconds of operators (positions, ascending) as one kernel."""


class KernelCosts(Protocol):
    """Cost model of one network's kernels on a machine part that runs one kernel at a time: a cluster, a GPU, a CPU."""

    @property
    def analysis(self) -> Analysis:
        """The network, with its memoized analyses."""

    def with_network(self, analysis: Analysis) -> "KernelCosts":
        """Return the costs of another network on the same machine."""

    @property
    def dtype(self) -> str:
        """Data type in which the network is computed."""

    @property
    def cores(self) -> int:
        """Cores that a kernel is spread over."""

    @property
    def on_chip(self) -> tuple[OnChipMemory, ...]:
        """Memories that a schedule manages, innermost first; empty where hardware caches decide what stays on chip."""

    @property
    def off_chip_bytes_per_s(self) -> float:
        """Off-chip bandwidth of this part of the machine when all parts are busy, in bytes per second."""

    @property
    def launch_s(self) -> float:
        """Seconds to start one kernel."""

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the estimated seconds of operators, ascending, as one kernel, its launch included.

        Inputs come from outside the chip and outputs go there, except for what caches hold. A kernel without work takes
        0 s, one that the machine cannot run ``math.inf``.
        """

    def least_s(self, ops: Sequence[int]) -> float:
        """Return a lower bound of `kernel_s` that is cheaper to compute; 0 where none is known."""

    def most_s(self, ops: Sequence[int]) -> float:
        """Return an upper bound of `kernel_s` that is cheaper to compute; infinite where none is known."""
