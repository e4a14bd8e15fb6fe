"""Checks for repetitions in an experiment: equal values, sizes, policies or machines, however they are spelled."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dsascape.experiments.question.network import default_dtype, load, own_batch
from dsascape.experiments.question.points import LENGTHS, Workload, split_tuning
from dsascape.hw_models import AnyHardware, HardwareError, with_values
from dsascape.hw_models.text.messages import shown
from dsascape.scheduler import Policy, ScheduleError, make_tuning, policy_label
from dsascape.workloads import WorkloadError

T = TypeVar("T")


def check_values(base: AnyHardware, tuning: Mapping[str, Any], path: str, values: Sequence[Any]) -> None:
    """Raise ``HardwareError`` if two values of a path give the same machine and tuning: 1 MiB and 1024 KiB.

    ``tuning`` holds the other settings of the scheduler, by path.
    """
    twice = _first_pair(values, lambda value: _as_text(base, {**tuning, path: value}))
    if twice is not None:
        first, again = twice
        same = "" if first == again and type(first) is type(again) else f", which is {shown(first)} again"
        raise HardwareError(f"has {shown(again)}{same or ' twice'}; needs each value once")


def check_policies(policies: Iterable[tuple[Policy, str]]) -> None:
    """Raise ``ScheduleError`` if a policy occurs twice with equal options; each comes with its file, or ""."""

    def what(entry: tuple[Policy, str]) -> Hashable:
        policy, file = entry
        kind = type(policy)
        return (str(Path(file).resolve()) if file else f"{kind.__module__}.{kind.__qualname__}"), policy_label(policy)

    twice = _first_pair(policies, what)
    if twice is not None:
        raise ScheduleError(f"has {policy_label(twice[1][0])!r} twice, with equal options; needs it once")


def check_workloads(workloads: Iterable[Workload], machines: Iterable[AnyHardware]) -> None:
    """Raise ``WorkloadError`` if two workloads are one network at the same sizes, on at least one of the machines.

    Sizes left open are the network's own; a dtype left open is the machine's default.
    """
    defaults = sorted({default_dtype(machine) for machine in machines})
    same_model: dict[Hashable, list[Workload]] = {}
    for workload in workloads:
        same_model.setdefault((_model(workload), workload.simplify, workload.dims), []).append(workload)
    for several in same_model.values():
        first_at: dict[Hashable, Workload] = {}
        for workload, sizes in zip(several, _sizes(several), strict=True):
            for dtype in [workload.dtype] if workload.dtype else defaults:
                if (dtype, sizes) in first_at:
                    first = _told(first_at[dtype, sizes])
                    raise WorkloadError(f"has {first} and {_told(workload)}, which are the same; needs it once")
                first_at[dtype, sizes] = workload


def check_machines(machines: Sequence[tuple[AnyHardware, Mapping[str, Sequence[Any]], Mapping[str, Any]]]) -> None:
    """Raise ``HardwareError`` if two entries that sweep the same paths share a machine.

    Each entry is (base machine, swept values by path, tuning by path).
    """
    for place, (base, sweep, tuning) in enumerate(machines):
        for earlier, (other, swept, tuned) in enumerate(machines[:place]):
            if base.kind != other.kind or sweep.keys() != swept.keys():
                continue
            start = {path: values[0] for path, values in sweep.items()}
            try:
                same = _as_text(base, {**tuning, **start}) == _as_text(other, {**tuned, **start})
                shared = {path: _shared(base, tuning, path, (swept[path], sweep[path])) for path in sweep}
            except (HardwareError, ScheduleError):
                continue
            if same and all(shared.values()):
                at = ", ".join(f"{path} = {values[0]}" for path, values in shared.items())
                where = f" at {at}" if at else ""
                raise HardwareError(f"has in entry {place} the machine of entry {earlier}{where} again; needs it once")


def _shared(
    base: AnyHardware, tuning: Mapping[str, Any], path: str, values: tuple[Sequence[Any], Sequence[Any]]
) -> list[Any]:
    """Return the second values that also occur, however spelled, among the first ones."""
    first = {_as_text(base, {**tuning, path: value}) for value in values[0]}
    return [value for value in values[1] if _as_text(base, {**tuning, path: value}) in first]


def _as_text(base: AnyHardware, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the machine and the tuning with ``settings`` applied, as text for comparison."""
    of_machine, of_scheduler = split_tuning(settings)
    machine = with_values(base, of_machine) if of_machine else base
    return machine.model_dump_json(by_alias=True), repr(make_tuning(base, of_scheduler))


def _first_pair(values: Iterable[T], what: Callable[[T], Hashable]) -> tuple[T, T] | None:
    """Return the first pair (earlier value, later value) for which ``what`` is equal; None if there is none."""
    earlier: dict[Hashable, T] = {}
    for value in values:
        identity = what(value)
        if identity in earlier:
            return earlier[identity], value
        earlier[identity] = value
    return None


def _model(workload: Workload) -> str:
    return str(Path(workload.model).resolve()) if workload.model.endswith(".onnx") else workload.model


def _sizes(several: Sequence[Workload]) -> list[Hashable]:
    """Return comparable (batch, sizes) of one network's workloads; sizes that only some leave open are resolved."""
    batches = {each.batch for each in several}
    lengths = {_lengths(each) for each in several}
    is_open = len(lengths) > 1 and any(None in sizes for sizes in zip(*lengths, strict=True))
    return [
        (
            own_batch(each).size if each.batch is None and len(batches) > 1 else each.batch,
            _shapes(each) if is_open else _lengths(each),
        )
        for each in several
    ]


def _lengths(workload: Workload) -> tuple[int | None, ...]:
    return tuple([workload.sizes[name] for name in LENGTHS])


def _shapes(workload: Workload) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, tensor.shape) for name, tensor in load(workload, None).tensors.items())


def _told(workload: Workload) -> str:
    sizes = [*workload.sizes.items(), ("dtype", workload.dtype)]
    said = ", ".join(f"{name} {size}" for name, size in sizes if size is not None)
    name = shown(Path(workload.model).name if workload.model.endswith(".onnx") else workload.model)
    return f"{name} ({said})" if said else name
