"""Hierarchical search (ETO, Algorithm 1), whatever the machine: rounds of programs, each around the best so far.

For each way to split the result over what runs in parallel there is a first round, then a second one around the
fastest program of the first, then what else a program has. A machine kind says which shapes these have.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Generic, TypeVar

from dsascape.tuner.search.reuse.operators import Interval

ShapesT = TypeVar("ShapesT")
ProgramT = TypeVar("ProgramT")
SAMPLES = 10
"""Programs of the reused operator that are drawn to estimate a search cost (the authors' code)."""


def within(values: Iterable[int], interval: Interval) -> tuple[int, ...]:
    """Return the values in an interval, and one beyond each end if it is nearer to that than all inside."""
    low, high = interval
    known = sorted(values)
    inside = [each for each in known if low <= each <= high]
    below, above = [each for each in known if each < low][-1:], [each for each in known if each > high][:1]
    if inside:
        below = [each for each in below if low - each < inside[0] - low]
        above = [each for each in above if each - high < high - inside[-1]]
    return (*below, *inside, *above)


def scaled(value: int, ratios: Interval) -> tuple[Fraction, Fraction]:
    """Return the interval of a feature: that of its ratio to the reused program's ``value``."""
    return value * ratios[0], value * ratios[1]


class Rounds(ABC, Generic[ShapesT]):
    """Algorithm 1 for one reuse pair, on one kind of machine."""

    @abstractmethod
    def splits(self) -> Sequence[int]:
        """Return the numbers of parallel parts to try."""

    @abstractmethod
    def first_round(self, parts: int) -> Iterable[ShapesT]:
        """Return the shapes of the first measurements for a number of parallel parts."""

    @abstractmethod
    def second_round(self, best: ShapesT, parts: int) -> Iterable[ShapesT]:
        """Return the shapes of the second measurements, around the best of the first."""

    def search(
        self,
        get_program: Callable[[ShapesT], ProgramT | None],
        fastest: Callable[[Sequence[ProgramT]], ProgramT | None],
        later: Sequence[Callable[[ProgramT], Sequence[ProgramT]]] = (),
    ) -> ProgramT | None:
        """Return the fastest program that is found; None where none runs.

        ``get_program`` is GetS; ``fastest`` is BestS: it measures programs that it has not measured before, and says
        which of them takes least time, or None. ``later`` has the rounds behind the second, each of which gives other
        programs than the best so far: pragmas of unrolling, lengths of vectors for each input.
        """
        best: ProgramT | None = None
        for parts in self.splits():
            own = self._for_split(parts, get_program, fastest, later)
            if own is not None:
                best = own if best is None else fastest([best, own])
        return best

    def _for_split(
        self,
        parts: int,
        get_program: Callable[[ShapesT], ProgramT | None],
        fastest: Callable[[Sequence[ProgramT]], ProgramT | None],
        later: Sequence[Callable[[ProgramT], Sequence[ProgramT]]],
    ) -> ProgramT | None:
        tried = [(shapes, get_program(shapes)) for shapes in self.first_round(parts)]
        made = [(shapes, program) for shapes, program in tried if program is not None]
        best = fastest([program for _, program in made])
        if best is None:
            return None
        shapes = next(shapes for shapes, program in made if program == best)
        others = [program for each in self.second_round(shapes, parts) if (program := get_program(each)) is not None]
        best = fastest([best, *others])
        for more in later:
            if best is not None:
                best = fastest([best, *more(best)])
        return best
