"""The grid of an experiment: its possible design points by number, and the selection of those to run."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, overload

from dsascape.experiments.question.config import MOST_POINTS, Search
from dsascape.experiments.question.deciding import Deciding
from dsascape.experiments.question.pinned import pins_named
from dsascape.experiments.question.points import (
    DesignPoint,
    MeasuredOn,
    Origin,
    Workload,
    WrittenKernels,
    WrittenPins,
    split_tuning,
)
from dsascape.hw_models import AnyHardware, with_values
from dsascape.scheduler import make_tuning

_MOST_MACHINES_KEPT = 1_000


@dataclass(frozen=True)
class Machines:
    """A base machine and the values to sweep on it."""

    base: AnyHardware
    sweep: Mapping[str, tuple[Any, ...]]
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """Scheduler tuning set on all of these machines, by path."""
    source: str = ""
    """Preset or file of the machine, as given on a command line."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Machine values and tuning set on all of these machines, by path."""

    @property
    def count(self) -> int:
        """Number of machines."""
        return prod(map(len, self.sweep.values()))

    @cached_property
    def unchanged(self) -> tuple[frozenset[int], ...]:
        """Per swept path, the positions of the values that leave machine and tuning unchanged."""
        own = make_tuning(self.base, split_tuning(self.tuning)[1])

        def leaves(path: str, value: Any) -> bool:
            of_machine, of_scheduler = split_tuning({**self.tuning, path: value})
            return with_values(self.base, of_machine) == self.base and make_tuning(self.base, of_scheduler) == own

        return tuple(
            frozenset(place for place, value in enumerate(tried) if leaves(path, value))
            for path, tried in self.sweep.items()
        )

    def origin(self, digits: Sequence[int]) -> Origin:
        """Return the base machine and settings of the machine at these positions of the swept values."""
        swept = {path: tried[i] for (path, tried), i in zip(self.sweep.items(), digits, strict=True)}
        is_base = all(digit in same for digit, same in zip(digits, self.unchanged, strict=True))
        return Origin(self.source, {**self.values, **swept}, is_base)


@dataclass(frozen=True)
class Grid:
    """Workloads x machines x policies; in a point's number the policy changes fastest, the workload slowest."""

    workloads: tuple[tuple[Workload, Mapping[str, str]], ...]
    """Each workload with the sizes swept to get it (such as its batch)."""
    machines: tuple[Machines, ...]
    policies: tuple[Deciding, ...]
    """What decides the schedules of points: policies, and schedules from files."""
    measured_on: MeasuredOn | None = None
    """Measurement conditions of all points; None: they are simulated only."""
    kernels: WrittenKernels | None = None
    """Tuned kernels of all points."""
    weights: tuple[float, ...] = ()
    """Weight of each workload where all are taken together; empty: they weigh the same."""
    pins: WrittenPins | None = None
    """Decisions that are fixed for some layers of all points."""
    _built: dict[tuple[int, ...], AnyHardware] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def designs(self) -> int:
        """Number of (machine, policy) pairs per workload."""
        return sum(machines.count for machines in self.machines) * len(self.policies)

    @cached_property
    def size(self) -> int:
        """Number of design points."""
        return self.designs * len(self.workloads)

    def point(self, number: int) -> DesignPoint:
        """Return the design point with this number, counted from 0."""
        position, design = divmod(number, self.designs)
        return self._point(position, *self.places(design))

    def design(self, number: int) -> list[DesignPoint]:
        """Return the points of a (machine, policy) pair, counted from 0: one for each workload."""
        return [self.point(workload * self.designs + number) for workload in range(len(self.workloads))]

    def places(self, design: int) -> tuple[int, int, tuple[int, ...]]:
        """Return the positions of a (machine, policy) pair: of its policy, base machine and swept values."""
        place, which = divmod(design, len(self.policies))
        family = 0
        while place >= self.machines[family].count:
            place -= self.machines[family].count
            family += 1
        digits = []
        for values in reversed(tuple(self.machines[family].sweep.values())):
            place, digit = divmod(place, len(values))
            digits.append(digit)
        return which, family, tuple(reversed(digits))

    def number(self, workload: int, policy: int, machines: int, values: Sequence[int]) -> int:
        """Return the number of the point at these positions; ``values`` has one position per swept path."""
        place = 0
        for digit, tried in zip(values, self.machines[machines].sweep.values(), strict=True):
            place = place * len(tried) + digit
        place += sum(earlier.count for earlier in self.machines[:machines])
        return workload * self.designs + place * len(self.policies) + policy

    def _point(self, position: int, which: int, family: int, digits: tuple[int, ...]) -> DesignPoint:
        workload, sizes = self.workloads[position]
        deciding = self.policies[which]
        machines = self.machines[family]
        settings = {path: tried[i] for (path, tried), i in zip(machines.sweep.items(), digits, strict=True)}
        machine = self._built.get((family, *digits))
        of_machine, tuning = split_tuning({**machines.tuning, **settings})
        if machine is None:
            machine = with_values(machines.base, of_machine) if of_machine else machines.base
            if len(self._built) >= _MOST_MACHINES_KEPT:
                self._built.clear()
            self._built[family, *digits] = machine
        swept = {**sizes, **{path: str(value) for path, value in settings.items()}, **deciding.named}
        is_fixed = deciding.schedule is not None
        swept |= {} if is_fixed or self.pins is None else pins_named(self.pins)
        return DesignPoint(
            workload, machine, deciding.policy, swept, deciding.file, tuning, machines.origin(digits), self.measured_on,
            deciding.schedule, None if is_fixed else self.kernels, None if is_fixed else self.pins,
        )  # fmt: skip

    def chosen(self, search: Search) -> "Points":
        """Return the points of a ``grid`` or ``random`` search, in order of their numbers."""
        if search.budget is None or search.budget >= self.size:
            return Points(self, range(self.size))
        drawn = random.Random(search.seed)
        numbers: set[int] = set()
        if self.size <= MOST_POINTS**2:
            numbers.update(drawn.sample(range(self.size), search.budget))
        while len(numbers) < search.budget:
            numbers.add(drawn.randrange(self.size))
        return Points(self, sorted(numbers))


@dataclass(frozen=True)
class Points(Sequence[DesignPoint]):
    """A sequence of grid points, each built on access: memory is needed for their numbers only."""

    grid: Grid
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> DesignPoint: ...
    @overload
    def __getitem__(self, index: slice) -> "Points": ...
    def __getitem__(self, index: int | slice) -> "DesignPoint | Points":
        if isinstance(index, slice):
            return Points(self.grid, self.numbers[index])
        return self.grid.point(self.numbers[index])
