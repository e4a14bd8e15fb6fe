"""What is to be measured, as it is handed to the process that does it."""

from dataclasses import dataclass

from fusion.plan import FusionPlan
from tuner.measure.records import Budget


@dataclass(frozen=True)
class Job:
    """A plan, the target it is compiled for, and how well it is to be measured."""

    plan: FusionPlan
    target: str
    threads: int
    budget: Budget
    seed: int = 0
    """Of weights and inputs."""
    done: frozenset[str] = frozenset()
    """Kernels that need not be looked at again."""
    failed: tuple[str, ...] = ()
    """Kernels without which the network cannot run."""
