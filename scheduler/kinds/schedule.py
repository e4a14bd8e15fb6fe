"""Schedules of any machine kind: what policies, records and reports read of them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.pins.pins import AppliedPin
from dsascape.workloads.graph import Graph


class MachineSchedule(Protocol):
    """Schedule of a network on a machine of any kind; printed, it says what was decided."""

    @property
    def graph(self) -> Graph:
        """The network that is scheduled."""

    @property
    def plan(self) -> FusionPlan:
        """Plan that is scheduled."""

    @property
    def policy(self) -> str:
        """Name of the policy, with the options that differ from their defaults."""

    @property
    def dtype(self) -> str:
        """Data type in which the network is computed."""

    @property
    def kernels(self) -> int:
        """Number of launches."""

    @property
    def tensor_scopes(self) -> Mapping[str, int]:
        """Number of kernel or instance outputs kept in each memory."""

    @property
    def placed_layers(self) -> Sequence[tuple[int, Layer]]:
        """Pairs (number of the plan's group, layer) in the order in which instructions number their runs."""

    @property
    def launches(self) -> Sequence[tuple[str, int]]:
        """Pairs (label of a launch, number of the plan's group) in order; empty where each layer is a launch."""

    @property
    def pins(self) -> Sequence[AppliedPin]:
        """Decisions that the user fixed before the schedule was made."""

    def in_full(self) -> str:
        """Return the schedule as text in full detail."""
