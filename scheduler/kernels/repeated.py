"""What a measured kernel is compared with: the simulated time of the same kernel, run again and again by itself."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepeatedKernel:
    """The simulated time of one kernel, and where it goes."""

    seconds: float
    threads: int
    """Of a CPU, that have something to do; of a GPU, blocks."""
    parts_s: Mapping[str, float]
    """What each thing takes alone: cores or SMs to issue their instructions, memories to move their bytes."""

    @property
    def limited_by(self) -> str:
        """What takes longest."""
        return max(self.parts_s, key=lambda name: self.parts_s[name])
