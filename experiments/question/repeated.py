"""What an experiment asks for twice: values, sizes, policies, machines that are the same however they are spelled."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dsascape.experiments.question.network import default_dtype, load, own_batch
from dsascape.experiments.question.points import Workload, split_tuning
from dsascape.hw_models import AnyHardware, HardwareError, with_values
from dsascape.hw_models.text.messages import shown
from dsascape.scheduler import Policy, ScheduleError, make_tuning, policy_label
from dsascape.workloads import WorkloadError

T = TypeVar("T")


def check_values(base: AnyHardware, tuning: Mapping[str, Any], path: str, values: Sequence[Any]) -> None:
    """Raise ``HardwareError`` if two values of a swept path make one machine and one tuning: 1 MiB and 1024 KiB.

    ``tuning`` is what is set besides, by path.
    """
    twice = _first_pair(values, lambda value: _made(base, {**tuning, path: value}))
    if twice is not None:
        first, again = twice
        same = "" if first == again and type(first) is type(again) else f", which is {shown(first)} again"
        raise HardwareError(f"has {shown(again)}{same or ' twice'}; needs each value once")


def check_policies(policies: Iterable[tuple[Policy, str]]) -> None:
    """Raise ``ScheduleError`` if one policy is there twice with equal options; each comes with its file, if it has."""

    def what(entry: tuple[Policy, str]) -> Hashable:
        policy, file = entry
        kind = type(policy)
        return (str(Path(file).resolve()) if file else f"{kind.__module__}.{kind.__qualname__}"), policy_label(policy)

    twice = _first_pair(policies, what)
    if twice is not None:
        raise ScheduleError(f"has {policy_label(twice[1][0])!r} twice, with equal options; needs it once")


def check_workloads(workloads: Iterable[Workload], machines: Iterable[AnyHardware]) -> None:
    """Raise ``WorkloadError`` if two workloads are one network at the same sizes, on one of the machines at least.

    What is left open has the network's own size, or the machine's dtype.
    """
    defaults = sorted({default_dtype(machine) for machine in machines})
    alike: dict[Hashable, list[Workload]] = {}
    for workload in workloads:
        alike.setdefault((_model(workload), workload.simplify, workload.dims), []).append(workload)
    for several in alike.values():
        known: dict[Hashable, Workload] = {}
        for workload, sizes in zip(several, _sizes(several), strict=True):
            for dtype in [workload.dtype] if workload.dtype else defaults:
                if (dtype, sizes) in known:
                    first = _told(known[dtype, sizes])
                    raise WorkloadError(f"has {first} and {_told(workload)}, which are the same; needs it once")
                known[dtype, sizes] = workload


def check_machines(machines: Sequence[tuple[AnyHardware, Mapping[str, Sequence[Any]], Mapping[str, Any]]]) -> None:
    """Raise ``HardwareError`` if two entries that sweep the same quantities have a machine in common.

    Each is the base machine, the swept values and the tuning, by path.
    """
    for place, (base, sweep, tuning) in enumerate(machines):
        for earlier, (other, swept, tuned) in enumerate(machines[:place]):
            if base.kind != other.kind or sweep.keys() != swept.keys():
                continue
            start = {path: values[0] for path, values in sweep.items()}
            try:
                same = _made(base, {**tuning, **start}) == _made(other, {**tuned, **start})
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
    """Return those of the second values that are among the first ones, however they are spelled."""
    known = {_made(base, {**tuning, path: value}) for value in values[0]}
    return [value for value in values[1] if _made(base, {**tuning, path: value}) in known]


def _made(base: AnyHardware, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the machine and the tuning that come of settings, as text that differs where they do."""
    of_machine, of_scheduler = split_tuning(settings)
    machine = with_values(base, of_machine) if of_machine else base
    return machine.model_dump_json(by_alias=True), repr(make_tuning(base, of_scheduler))


def _first_pair(values: Iterable[T], what: Callable[[T], Hashable]) -> tuple[T, T] | None:
    """Return the first value that is the same as one before it, behind that one."""
    known: dict[Hashable, T] = {}
    for value in values:
        made = what(value)
        if made in known:
            return known[made], value
        known[made] = value
    return None


def _model(workload: Workload) -> str:
    return str(Path(workload.model).resolve()) if workload.model.endswith(".onnx") else workload.model


def _sizes(several: Sequence[Workload]) -> list[Hashable]:
    """Return what tells the sizes of one network apart; the network is asked for those that only some leave to it."""
    batches = {each.batch for each in several}
    lengths = {(each.sequence, each.image) for each in several}
    is_open = len(lengths) > 1 and any(None in sizes for sizes in zip(*lengths, strict=True))
    return [
        (
            own_batch(each).size if each.batch is None and len(batches) > 1 else each.batch,
            _shapes(each) if is_open else (each.sequence, each.image),
        )
        for each in several
    ]


def _shapes(workload: Workload) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, tensor.shape) for name, tensor in load(workload, None).tensors.items())


def _told(workload: Workload) -> str:
    sizes = {"batch": workload.batch, "sequence": workload.sequence, "image": workload.image, "dtype": workload.dtype}
    said = ", ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
    name = shown(Path(workload.model).name if workload.model.endswith(".onnx") else workload.model)
    return f"{name} ({said})" if said else name
