"""Reading of an experiment file: networks, machines, policies and swept values, checked before anything runs."""

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from dsascape.experiments.question.config import (
    ALL,
    MOST_POINTS,
    Experiment,
    ExperimentError,
    HardwareEntry,
    Measuring,
    WorkloadEntry,
    read_schema,
)
from dsascape.experiments.question.deciding import check_schedules, deciding_of
from dsascape.experiments.question.grid import Grid, Machines
from dsascape.experiments.question.network import load
from dsascape.experiments.question.pinned import pins_on, written_pins
from dsascape.experiments.question.points import (
    LENGTHS,
    SIZES,
    TUNING,
    MeasuredOn,
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
from dsascape.hw_models import AnyHardware, HardwareError, load_hardware, preset_names, presets_of, with_values
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

_LONGEST_MACHINE_NAME = 80


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
    points = _size(experiment, path)
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
    machines = _every_machine(experiment.hardware, path)
    if experiment.what_if is not None:
        with _at(path, "what_if"):
            variations(machines[0].base, read_requests(experiment.what_if.values))
    with _at(path, "hardware"):
        check_machines([(each.base, each.sweep, each.tuning) for each in machines])
    _tell_apart(workloads, path)
    with _at(path, "workloads"):
        check_workloads((workload for workload, _ in workloads), (each.base for each in machines))
    named = _named_apart(machines)
    folder = kernels or (None if experiment.kernels is None else _beside(experiment.kernels, path))
    tuned = None if folder is None else _kernels(folder, path, [each.base for each in machines])
    fixing = pins or (None if experiment.pins is None else _beside(experiment.pins, path))
    fixed = None if fixing is None else _pins(fixing, path, [each.base for each in machines])
    if experiment.combine is not None and len(workloads) * (experiment.search.budget or 0) > MOST_POINTS:
        raise ExperimentError(
            f"{path}: search.budget: asks for {count(experiment.search.budget or 0, 'design')} on"
            f" {count(len(workloads), 'network')}; at most {MOST_POINTS:,} points are run"
        )
    measured_on = _measured_on(experiment, path)
    return experiment, Grid(tuple(workloads), named, tuple(policies), measured_on, tuned, tuple(weights), fixed)


def _pins(fixing: Path, path: Path, bases: Sequence[AnyHardware]) -> WrittenPins:
    """Return the pins in a file; raise ``ExperimentError`` for mistakes, if no kind of machine makes such decisions.

    Of several kinds, the points of those that do not make them fail.
    """
    with _at(path, "pins"):
        found = written_pins(fixing)
        of_kinds = {base.kind: base for base in bases}
        refused: list[ScheduleError] = []
        for base in of_kinds.values():
            try:
                pins_on(found, base)
            except ScheduleError as error:
                refused.append(error)
        if len(refused) == len(of_kinds):
            raise refused[0]
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


def _size(experiment: Experiment, path: Path) -> int:
    sizes = sum(prod(len(_listed(getattr(w, name))) for name in SIZES) for w in experiment.workloads)
    machines = sum(
        len(_bases(entry, path, f"hardware.{position}")) * prod(map(len, entry.sweep.values()))
        for position, entry in enumerate(experiment.hardware)
    )
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
            graph = load(workload, workload.batch if dims else None)
            if graph.no_batch and batch_dims is None:
                _LOG.warning("%s: no batch: %s", model, graph.no_batch)
        yield workload, {name: str(sizes[name]) for name, several in stated.items() if isinstance(several, list)}


def _bases(entry: HardwareEntry, path: Path, where: str) -> tuple[str, ...]:
    """Return the base machines of an entry; raise ``ExperimentError`` for a kind without presets."""
    if entry.kind is not None:
        with _at(path, f"{where}.kind"):
            return presets_of(entry.kind)
    return preset_names() if entry.base == ALL else (str(entry.base),)


def _every_machine(entries: Sequence[HardwareEntry], path: Path) -> list[Machines]:
    """Return the machines of all entries.

    Of a selection, a preset that another entry has with the same values is left out, and so is one that lacks what the
    selection sets or sweeps, with a warning; raises ``ExperimentError`` where none has it.
    """
    stated = {(entry.base, str(entry.values), str(entry.sweep)) for entry in entries if not entry.is_selection}
    machines: list[Machines] = []
    for position, entry in enumerate(entries):
        where = f"hardware.{position}"
        if not entry.is_selection:
            machines.append(_machines(entry, str(entry.base), path, where))
            continue
        failures: list[ExperimentError] = []
        found: list[Machines] = []
        selected = [(base, str(entry.values), str(entry.sweep)) for base in _bases(entry, path, where)]
        for base, *values in selected:
            if (base, *values) not in stated:
                try:
                    found.append(_machines(entry, base, path, where))
                except ExperimentError as error:
                    failures.append(error)
        if failures and not found:
            raise failures[0]
        for failure in failures:
            _LOG.warning("left out: %s", failure)
        stated.update(selected)
        machines += found
    return machines


def _machines(entry: HardwareEntry, name: str, path: Path, where: str) -> Machines:
    """Return the base machine with its values set; each swept value is applied once to report mistakes."""
    with _at(path, f"{where}.base"):
        source = str(_beside(name, path)) if name.endswith((".yaml", ".yml")) else name
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


def _named_apart(machines: Sequence[Machines]) -> tuple[Machines, ...]:
    """Return the machines; those that share a name but differ get the values set on them added to it."""
    bases = [each.base for each in machines]
    names = []
    for position, (base, machine) in enumerate(zip(bases, machines, strict=True)):
        label = base.name
        if machine.values and any(other.name == label and other != base for other in bases):
            stated = machine.values.items()
            values = ", ".join(f"{path}: {'null' if value is None else value}" for path, value in stated)
            label = re.sub(r"[^\w .,:+()/-]", "-", f"{base.name} ({values})")
        names.append(label if len(label) <= _LONGEST_MACHINE_NAME else f"{base.name[:70]} ({position + 1})")
    return tuple(
        each if each.base.name == name else replace(each, base=with_values(each.base, {"name": name}))
        for each, name in zip(machines, names, strict=True)
    )


def _beside(name: str, path: Path) -> Path:
    """Resolve ``name`` relative to the folder of the experiment file."""
    return Path(name) if Path(name).is_absolute() else path.parent / name
