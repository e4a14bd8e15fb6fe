"""The record that scheduling a network for a machine ends with: plan, schedule, program and simulated run."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import Program, SimulationResult
from dsascape.hw_models.text.quantities import PS_PER_S


class OfPlan(Protocol):
    """A schedule of any machine kind: it has the plan that it is of."""

    @property
    def plan(self) -> FusionPlan: ...


ScheduleT_co = TypeVar("ScheduleT_co", bound=OfPlan, covariant=True)


@dataclass(frozen=True, slots=True)
class Evaluated(Generic[ScheduleT_co]):
    """A schedule of a network on a machine, its program, and the result of simulating that."""

    schedule: ScheduleT_co
    program: Program
    result: SimulationResult
    clock_share: float = 1.0
    """Share of the machine's sustained clock in that simulation; below 1 where a power limit demands it."""

    @property
    def plan(self) -> FusionPlan:
        """The plan that the schedule is of; its network is the one that was scheduled, perhaps a rewritten one."""
        return self.schedule.plan

    @property
    def seconds(self) -> float:
        """Makespan in seconds."""
        return self.result.makespan_ps / PS_PER_S
