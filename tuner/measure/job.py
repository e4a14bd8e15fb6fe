"""What is to be measured, as it is handed to the process that does it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusion.plan import FusionPlan
from scheduler.cpu.tiles import LoopTiles
from tuner.measure.records import Budget


@dataclass(frozen=True)
class Job:
    """A plan, the target it is compiled for, and how well it is to be measured."""

    plan: FusionPlan
    threads: int
    target: str = "llvm"
    budget: Budget = field(default_factory=Budget)
    tiles: Mapping[int, LoopTiles | None] | None = None
    """As a schedule decides them, by group; None: the default ones."""
    seed: int = 0
    """Of weights and inputs."""
    done: frozenset[str] = frozenset()
    """Kernels that need not be looked at again."""
    failed: tuple[str, ...] = ()
    """Kernels without which the network cannot run."""
