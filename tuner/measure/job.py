"""Measuring jobs, as they are passed to the measuring process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.schedule.steps import Chosen
from dsascape.scheduler.cpu.view import CpuView
from dsascape.tuner.measure.address import LOCAL
from dsascape.tuner.measure.records import Budget


@dataclass(frozen=True)
class Job:
    """A plan to measure, its target and device, and the precision wanted."""

    plan: FusionPlan
    chosen: Mapping[int, Chosen]
    """Loops of the schedule's kernels, by group number."""
    lanes: int
    """Single-precision lanes of the machine's vectors."""
    threads: int
    target: str = "llvm"
    budget: Budget = field(default_factory=Budget)
    device: str = LOCAL
    """Address of the device that runs it (`tuner.measure.address`)."""
    flush_caches: bool = False
    """Whether kernels' arguments are flushed from all caches before each timed run."""
    seed: int = 0
    """Seed of weights and inputs."""
    done: frozenset[str] = frozenset()
    """Names of kernels that are already measured."""
    failed: tuple[str, ...] = ()
    """Names of failed kernels, without which the network cannot run."""


def job_of_schedule(
    schedule: CpuSchedule, view: CpuView, target: str, budget: Budget, device: str = LOCAL, *,
    flush_caches: bool = False,
) -> Job:  # fmt: skip
    """Return the job that measures ``schedule``, made for the machine of ``view``, on its threads."""
    lanes, threads = view.lanes(schedule.dtype), max(view.thread_counts)
    return Job(schedule.plan, schedule.chosen, lanes, threads, target, budget, device, flush_caches)
