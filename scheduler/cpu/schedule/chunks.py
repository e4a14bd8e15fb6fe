"""How the parallel loop of a kernel is split over threads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunks:
    """How the parallel loop of a kernel is split: equal contiguous chunks, the last perhaps shorter."""

    count: int
    iterations: int
    """Iterations of a full chunk."""
    last_iterations: int
    """Iterations of the last chunk."""
    densities: tuple[float, ...] = ()
    """Work of an iteration of each chunk by that of one in the mean, where a mask makes them differ; empty: alike."""

    @property
    def heaviest(self) -> float:
        """The work of the chunk that has most by that of a full one in the mean."""
        return max([self.share(number) * each for number, each in enumerate(self.densities)], default=1.0)

    def density(self, number: int) -> float:
        """Return the work of an iteration of chunk ``number`` by that of one in the mean."""
        return self.densities[number] if number < len(self.densities) else 1.0

    @property
    def last_share(self) -> float:
        """The last chunk's iterations by those of a full one."""
        return self.last_iterations / self.iterations

    @property
    def in_all(self) -> float:
        """All chunks together by a full one."""
        return self.count - 1 + self.last_share

    def share(self, number: int) -> float:
        """Return the iterations of chunk ``number``, from 0, by those of a full one; 0 where there is no such chunk."""
        return 0.0 if number >= self.count else self.last_share if number == self.count - 1 else 1.0
