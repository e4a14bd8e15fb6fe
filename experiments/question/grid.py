"""The grid of an experiment: its possible design points by number, and the selection of those to run."""

import itertools
import logging
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, overload

from dsascape.experiments.question.config import (
    MOST_POINTS,
    Experiment,
    ExperimentError,
    HardwareEntry,
    Measuring,
    Search,
    WorkloadEntry,
    read_schema,
)
from dsascape.experiments.question.deciding import Deciding, check_schedules, deciding_of
from dsascape.experiments.question.network import load
from dsascape.experiments.question.pinned import pins_named, pins_on, written_pins
from dsascape.experiments.question.points import (
    LENGTHS,
    SIZES,
    TUNING,
    DesignPoint,
    MeasuredOn,
    Origin,
    Workload,
    WrittenKernels,
    WrittenPins,
    split_tuning,
    stated_batch,
    written_kernels,
)
from dsascape.experiments.question.processor import processor_of
from dsascape.experiments.question.repeated import check_machines, check_policies, check_values, check_workloads
from dsascape.experiments.question.tuned_kernels import kernels_said
from dsascape.experiments.question.variations import read_requests, variations
from dsascape.hw_models import AnyHardware, HardwareError, load_hardware, with_values
from dsascape.scheduler import ScheduleError, make_tuning
from dsascape.tuner.measure import (
    AddressError,
    MeasureError,
    TargetError,
    check_installed,
    check_target,
    remote_address,
)
from dsascape.wording import count
from dsascape.workloads import WorkloadError, zoo_entry

_LOG = logging.getLogger(__name__)

_MOST_MACHINES_KEPT = 1_000
_LONGEST_MACHINE_NAME = 80


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


def read_experiment(
    path: Path, measure: Measuring | None = None, kernels: Path | None = None, pins: Path | None = None
) -> tuple[Experiment, Grid]:
    """Read the experiment at ``path``; return it and its grid. Raises ``ExperimentError`` with what is wrong.

    With ``measure``, points are measured even if the file does not say so. Networks, machines, policies and swept
    values are checked before anything runs. Relative paths in the file are relative to its folder.
    """
    experiment = read_schema(path)
    if measure is not None:
        experiment = experiment.model_copy(update={"measure": _both(experiment.measure, measure)})
    points = _size(experiment)
    if points > MOST_POINTS and experiment.search.method == "grid":
        sweeps = [f"hardware.{i}.sweep" for i, entry in enumerate(experiment.hardware) if entry.sweep]
        where = sweeps[0] if sweeps else "workloads"
        raise ExperimentError(
            f"{path}: {where}: asks for {count(points, 'design point')} in all; at most {MOST_POINTS:,} are run"
        )
    policies = []
    for position, entry in enumerate(experiment.policies):
        ((name, options),) = entry.items()
        with _at(path, f"policies.{position}"):
            policies.append(deciding_of(name, options, path.parent))
    with _at(path, "policies"):
        check_schedules(policies)
        check_policies([(each.policy, each.file) for each in policies if each.schedule is None])
    workloads: list[tuple[Workload, Mapping[str, str]]] = []
    weights: list[float] = []
    for position, workload in enumerate(experiment.workloads):
        with _at(path, f"workloads.{position}"):
            workloads += _workloads(workload, path)
        weights += [1.0 if workload.weight is None else workload.weight] * (len(workloads) - len(weights))
    machines = []
    for position, machine in enumerate(experiment.hardware):
        machines.append(_machines(machine, path, f"hardware.{position}"))
    if experiment.what_if is not None:
        with _at(path, "what_if"):
            variations(machines[0].base, read_requests(experiment.what_if.values))
    with _at(path, "hardware"):
        check_machines([(each.base, each.sweep, each.tuning) for each in machines])
    _tell_apart(workloads, path)
    with _at(path, "workloads"):
        check_workloads((workload for workload, _ in workloads), (each.base for each in machines))
    named = _named_apart(machines, experiment.hardware)
    folder = kernels or (None if experiment.kernels is None else _beside(experiment.kernels, path))
    tuned = None if folder is None else _kernels(folder, path, [each.base for each in machines])
    fixing = pins or (None if experiment.pins is None else _beside(experiment.pins, path))
    fixed = None if fixing is None else _pins(fixing, path, [each.base for each in machines])
    if experiment.combine is not None and len(workloads) * (experiment.search.budget or 0) > MOST_POINTS:
        raise ExperimentError(
            f"{path}: search.budget: asks for {experiment.search.budget:,} designs on"
            f" {count(len(workloads), 'network')}; at most {MOST_POINTS:,} points are run"
        )
    measured_on = _measured_on(experiment, path)
    return experiment, Grid(tuple(workloads), named, tuple(policies), measured_on, tuned, tuple(weights), fixed)


def _pins(fixing: Path, path: Path, bases: Sequence[AnyHardware]) -> WrittenPins:
    """Return the pins in a file, checked for the kinds of all machines; raise ``ExperimentError`` for mistakes."""
    with _at(path, "pins"):
        found = written_pins(fixing)
        for base in bases:
            pins_on(found, base)
    return found


def _kernels(folder: Path, path: Path, bases: Sequence[AnyHardware]) -> WrittenKernels:
    """Return the tuned kernels of ``folder``, and say which are of no use; raise ``ExperimentError`` where it has none.

    Kernels are tuned for one machine, and used where nothing of that is changed.
    """
    with _at(path, "kernels"):
        found = written_kernels(folder)
        for base in bases:
            for line in kernels_said(found, base):
                _LOG.warning("%s", line)
    return found


def _both(own: Measuring | None, requested: Measuring) -> Measuring:
    """Return the file's measurement options, with caches flushed if either the file or the command says so."""
    if own is None:
        return requested
    return own.model_copy(update={"flush_caches": own.flush_caches or requested.flush_caches})


def _measured_on(experiment: Experiment, path: Path) -> MeasuredOn | None:
    """Return the measurement conditions, if any; raise ``ExperimentError`` if measuring is impossible here."""
    if experiment.measure is None:
        return None
    target, device = experiment.measure.target, experiment.measure.device
    try:
        check_installed()
        if remote_address(device) is None:
            check_target(target)
    except (AddressError, MeasureError, TargetError) as error:
        raise ExperimentError(f"{path}: measure: {error}") from error
    return MeasuredOn(target, device, processor_of(target, device), experiment.measure.flush_caches)


def _size(experiment: Experiment) -> int:
    sizes = sum(prod(len(_listed(getattr(w, name))) for name in SIZES) for w in experiment.workloads)
    machines = sum(prod(map(len, entry.sweep.values())) for entry in experiment.hardware)
    return sizes * machines * len(experiment.policies)


@contextmanager
def _at(path: Path, where: str) -> Iterator[None]:
    """Re-raise errors as ``ExperimentError`` with the file and the key they belong to."""
    try:
        yield
    except (HardwareError, ScheduleError, WorkloadError) as error:
        raise ExperimentError(f"{path}: {where}: {error}") from error


def _listed(value: int | list[int] | None) -> Sequence[int | None]:
    return value if isinstance(value, list) else [value]


def _workloads(entry: WorkloadEntry, path: Path) -> Iterator[tuple[Workload, dict[str, str]]]:
    """Yield the entry at each of its sizes; networks from files or at changed sizes are loaded once to check them."""
    model = entry.model
    if model.endswith(".onnx"):
        model = str(_beside(model, path))
    else:
        zoo_entry(model)
    dims, batch_dims = tuple(sorted(entry.dims.items())), stated_batch(entry.batch_dim)
    own = Workload(model, dtype=entry.dtype, simplify=entry.simplify, dims=dims, batch_dims=batch_dims)
    stated = {name: getattr(entry, name) for name in SIZES}
    for each in itertools.product(*map(_listed, stated.values())):
        sizes: dict[str, Any] = dict(zip(stated, each, strict=True))
        workload = replace(own, **sizes)
        changes = dims or entry.batch_dim or any(sizes[name] is not None for name in LENGTHS)
        if model.endswith(".onnx") or changes:
            graph = load(workload, None)
            if graph.no_batch and batch_dims is None:
                _LOG.warning("%s: no batch: %s", model, graph.no_batch)
        yield workload, {name: str(sizes[name]) for name, several in stated.items() if isinstance(several, list)}


def _machines(entry: HardwareEntry, path: Path, where: str) -> Machines:
    """Return the base machine with its values set; each swept value is applied once to report mistakes."""
    with _at(path, f"{where}.base"):
        source = str(_beside(entry.base, path)) if entry.base.endswith((".yaml", ".yml")) else entry.base
        base = load_hardware(source)
    with _at(path, f"{where}.set"):
        settings, tuning = split_tuning(entry.values)
        base = with_values(base, settings) if settings else base
        make_tuning(base, tuning)
    tuned = {f"{TUNING}{name}": value for name, value in tuning.items()}
    for swept, values in entry.sweep.items():
        with _at(path, f"{where}.sweep.{swept}"):
            if swept in ("name", "kind"):
                raise HardwareError("cannot be swept; needs a separate entry for each machine")
            for value in values:
                of_machine, of_scheduler = split_tuning({swept: value})
                with_values(base, of_machine)
                make_tuning(base, of_scheduler)
            check_values(base, tuned, swept, values)
    sweep = {swept: tuple(values) for swept, values in entry.sweep.items()}
    return Machines(base, sweep, tuned, source, dict(entry.values))


def _tell_apart(workloads: Sequence[tuple[Workload, Mapping[str, str]]], path: Path) -> None:
    """Raise ``ExperimentError`` if two different networks have the same label in tables and reports."""
    models: dict[str, str] = {}
    for workload, _ in workloads:
        first = models.setdefault(workload.label, workload.model)
        if first != workload.model and ".onnx" in (Path(first).suffix, Path(workload.model).suffix):
            raise ExperimentError(
                f"{path}: workloads: {first} and {workload.model} are both called {workload.label!r}; rename one file"
            )


def _named_apart(machines: Sequence[Machines], entries: Sequence[HardwareEntry]) -> tuple[Machines, ...]:
    """Return the machines; those that share a name but differ get the values set on them added to it."""
    bases = [each.base for each in machines]
    names = []
    for position, (base, entry) in enumerate(zip(bases, entries, strict=True)):
        label = base.name
        if entry.values and any(other.name == label and other != base for other in bases):
            values = ", ".join(f"{path}: {'null' if value is None else value}" for path, value in entry.values.items())
            label = re.sub(r"[^\w .,:+()/-]", "-", f"{base.name} ({values})")
        names.append(label if len(label) <= _LONGEST_MACHINE_NAME else f"{base.name[:70]} ({position + 1})")
    return tuple(
        each if each.base.name == name else replace(each, base=with_values(each.base, {"name": name}))
        for each, name in zip(machines, names, strict=True)
    )


def _beside(name: str, path: Path) -> Path:
    """Resolve ``name`` relative to the folder of the experiment file."""
    return Path(name) if Path(name).is_absolute() else path.parent / name
