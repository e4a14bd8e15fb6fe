"""JSON records shared by schedules of machine kinds that run kernel by kernel: network, groups, kernels."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar, get_args

import pydantic
from pydantic import Field

from dsascape.fusion.plan import FusionPlan, Group
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.record import Number, Numbers, Record, Size
from dsascape.scheduler.kernels.schedule import Kernel, KernelSchedule, KernelT
from dsascape.scheduler.pins.pins import AppliedPin, without_empty_pins
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.nest_by_nest import Algorithms, written_out

__all__ = [
    "GroupRecord",
    "KernelRecord",
    "MachineRecord",
    "NetworkRecord",
    "Number",
    "Numbers",
    "OriginRecord",
    "Record",
    "ScheduleFile",
    "Size",
    "check_order",
    "group_records",
    "network_record",
    "origin_record",
    "parsed",
    "read_kernels",
    "read_layer",
    "written",
]  # fmt: skip


class NetworkRecord(Record):
    """The network that a schedule is for."""

    name: str
    batch: Size
    operators: Number
    dtype: str


class GroupRecord(Record):
    """A group of the plan."""

    operators: Numbers
    reason: str


class OriginRecord(Record):
    """Origin of the plan, where it involves another policy than the schedule's."""

    scheduled_by: str = ""
    rewritten: bool = False
    text: str = ""


class KernelRecord(Record):
    """Fields that every kernel has; machine kinds derive their own record with its loops."""

    output: str
    group: Number
    operators: Numbers


class MachineRecord(Record):
    """The machine that a schedule is for."""

    kind: str


RecordT = TypeVar("RecordT", bound=KernelRecord)


class ScheduleFile(Record, Generic[RecordT]):
    """A schedule file; machine kinds supply the record of a kernel."""

    format: str
    network: NetworkRecord
    machine: MachineRecord
    policy: str
    origin: OriginRecord = OriginRecord()
    groups: Annotated[tuple[GroupRecord, ...], Field(strict=False)]
    kernels: Annotated[tuple[RecordT, ...], Field(strict=False)]
    pins: Annotated[tuple[AppliedPin, ...], Field(strict=False)] = ()


_File = TypeVar("_File", bound=Record)


def written(
    file: type[ScheduleFile[RecordT]],
    kind: str,
    schedule: KernelSchedule[KernelT],
    record: Callable[[KernelT], RecordT],
) -> dict[str, Any]:
    """Return the JSON document of a schedule for machine kind ``kind``; ``record`` makes the record of a kernel."""
    formats: Sequence[str] = get_args(file.model_fields["format"].annotation) or (f"dsascape {kind} schedule 1",)
    document = file.model_validate({
        "format": formats[0],
        "network": network_record(schedule.graph, schedule.dtype),
        "machine": {"kind": kind},
        "policy": schedule.policy,
        "origin": origin_record(schedule.plan),
        "groups": group_records(schedule.plan),
        "kernels": [record(kernel) for kernel in schedule.runs],
        "pins": schedule.pins,
    })  # fmt: skip
    return without_empty_pins(document.model_dump(mode="json"))


def network_record(graph: Graph, dtype: str) -> NetworkRecord:
    """Return the record of the network."""
    return NetworkRecord(name=graph.name, batch=graph.batch, operators=len(graph.ops), dtype=dtype)


def group_records(plan: FusionPlan) -> tuple[GroupRecord, ...]:
    """Return the records of the plan's groups."""
    return tuple([GroupRecord(operators=group.ops, reason=group.boundary_reason) for group in plan.groups])


def origin_record(plan: FusionPlan) -> OriginRecord:
    """Return the record of the plan's origin."""
    return OriginRecord(scheduled_by=plan.scheduled_by, rewritten=plan.rewritten, text=plan.origin)


def parsed(file: type[_File], data: object) -> _File:
    """Return ``data`` as a ``file``; raise ``ScheduleError`` with the first mistake in it."""
    try:
        return file.model_validate(data)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ScheduleError(f"schedule: {where}: {first['msg']}") from error


def _plan(file: ScheduleFile[RecordT], graph: Graph, dtype: str) -> FusionPlan:
    """Return the plan of a file; raise ``ScheduleError`` if it is for another network or omits an operator."""
    network, groups, origin = file.network, file.groups, file.origin
    for what, has, needs in (
        ("network.name", network.name, graph.name), ("network.batch", network.batch, graph.batch),
        ("network.operators", network.operators, len(graph.ops)), ("network.dtype", network.dtype, dtype),
    ):  # fmt: skip
        if has != needs:
            raise ScheduleError(f"schedule: {what} is {has}; the run has {needs}")
    every = [position for group in groups for position in group.operators]
    if sorted(every) != list(range(len(graph.ops))):
        raise ScheduleError("schedule: groups: needs every operator of the network once")
    plan_groups = tuple([Group(each.operators, each.reason) for each in groups])
    return FusionPlan(graph, plan_groups, origin.scheduled_by, origin.rewritten, origin.text)


def read_kernels(
    file: ScheduleFile[RecordT], analysis: Analysis, dtype: str, read: Callable[[str, RecordT, Layer], KernelT],
    transposed: frozenset[int] = frozenset(), algorithms: Algorithms = frozenset(),
) -> tuple[FusionPlan, tuple[KernelT, ...]]:
    """Return the plan and the kernels of a file for the network of ``analysis``.

    ``read`` makes a kernel from its position in the file (text for messages), its record and its layer. Raises
    ``ScheduleError`` for a file of another network and for kernels that cannot run.
    """
    plan = _plan(file, analysis.graph, dtype)
    kernels = []
    written = analysis.of(written_out, transposed, algorithms).analysis
    for number, record in enumerate(file.kernels):
        where = f"schedule: kernels.{number} ({record.output})"
        kernels.append(read(where, record, read_layer(where, record, len(file.groups), written)))
    check_order(kernels, written.graph)
    return plan, tuple(kernels)


def read_layer(where: str, record: KernelRecord, groups: int, analysis: Analysis) -> Layer:
    """Return the layer of a kernel's record; raise ``ScheduleError`` if its operators, group or output are wrong."""
    graph = analysis.graph
    all_exist = all(position < len(graph.ops) for position in record.operators)
    if not record.operators or not all_exist or list(record.operators) != sorted(set(record.operators)):
        raise ScheduleError(f"{where}: operators: needs some of the network's {len(graph.ops)}, ascending")
    if record.group >= groups:
        raise ScheduleError(f"{where}: group {record.group}: there are {groups}")
    layer = Layer(graph, record.operators, analysis)
    if record.output != layer.sink.name:
        raise ScheduleError(f"{where}: its operators end with {layer.sink.name!r}")
    return layer


def check_order(kernels: Sequence[Kernel], graph: Graph) -> None:
    """Raise ``ScheduleError`` if a kernel reads a tensor before it is written, or no kernel writes a result."""
    there: set[str] = set()
    for number, kernel in enumerate(kernels):
        for name in kernel.layer.inputs:
            stored = graph.storage.get(name, name)
            if graph.tensors[stored].role == "activation" and stored not in there:
                where = f"schedule: kernels.{number} ({kernel.name})"
                raise ScheduleError(f"{where}: reads {stored!r} before it is written")
        there.update(kernel.layer.outputs)
    results = [name for name in sorted(graph.stored_outputs) if graph.tensors[name].role == "activation"]
    missing = [name for name in results if name not in there]
    if missing:
        raise ScheduleError(f"schedule: kernels: no kernel writes the network's result {missing[0]!r}")
