"""Simulated time of a kernel run repeatedly by itself, for comparison with measurements."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepeatedKernel:
    """Simulated time of one kernel run repeatedly, and its breakdown."""

    seconds: float
    threads: int
    """Number of threads with work (CPU), or of blocks (GPU)."""
    parts_s: Mapping[str, float]
    """Seconds that each resource needs alone: cores or SMs to issue instructions, memories to move bytes."""
    loops: str = ""
    """The kernel's loop program as text, where it has one."""

    @property
    def limited_by(self) -> str:
        """Name of the resource that needs the most time."""
        return max(self.parts_s, key=lambda name: self.parts_s[name])
