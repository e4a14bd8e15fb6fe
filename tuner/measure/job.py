"""What is to be measured, as it is handed to the process that does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.view import CpuView
from dsascape.tuner.measure.address import LOCAL
from dsascape.tuner.measure.records import Budget


@dataclass(frozen=True)
class Job:
    """A plan, the target it is compiled for, and how well it is to be measured."""

    plan: FusionPlan
    tiles: Mapping[int, LoopTiles]
    """By group, as a schedule decides them."""
    lanes: int
    """Of single precision in the vectors of the machine that the tiles are for."""
    threads: int
    target: str = "llvm"
    budget: Budget = field(default_factory=Budget)
    device: str = LOCAL
    """What runs it (`tuner.measure.address`)."""
    flush_caches: bool = False
    """Whether what a kernel is given is taken out of all caches before each timed run."""
    seed: int = 0
    """Of weights and inputs."""
    done: frozenset[str] = frozenset()
    """Kernels that need not be looked at again."""
    failed: tuple[str, ...] = ()
    """Kernels without which the network cannot run."""


def job_of_schedule(
    schedule: CpuSchedule, view: CpuView, target: str, budget: Budget, device: str = LOCAL, *,
    flush_caches: bool = False,
) -> Job:  # fmt: skip
    """Return the job of measuring ``schedule``, which was made for the machine of ``view``, on as many threads."""
    tiles = {kernel.group: kernel.tiles for kernel in schedule.runs}
    threads = max(view.thread_counts)
    return Job(schedule.plan, tiles, view.lanes(schedule.dtype), threads, target, budget, device, flush_caches)
