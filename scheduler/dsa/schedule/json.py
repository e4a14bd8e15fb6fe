"""Schedules as JSON: written, possibly edited by hand, and read back.

The file holds decisions. Derived values (bytes of buffers, loads per operand) are recomputed on reading, and the whole
is validated: a schedule that cannot run is refused with the reasons.
"""

from typing import Any

import pydantic

from dsascape.fusion.plan import FusionPlan, Group, Split
from dsascape.hw_models import HardwareError
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.placing.needs import in_rounds, outermost_memory, output_shares, outside_shares
from dsascape.scheduler.dsa.schedule.file import (
    FORMAT,
    AddressesRecord,
    GroupRecord,
    HaloRecord,
    InstanceRecord,
    MachineRecord,
    PrefetchRecord,
    RouteRecord,
    RunRecord,
    ScheduleFile,
    SliceRecord,
    SplitRecord,
)
from dsascape.scheduler.dsa.schedule.schedule import (
    Addresses,
    Execution,
    HaloExchange,
    Instance,
    LayerRun,
    PrefetchBuffers,
    Schedule,
    TensorSlice,
    TileAddresses,
)
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.dsa.tiling.candidates import TileCandidates
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.schedule_file import network_record, origin_record
from dsascape.scheduler.pins.pins import without_empty_pins
from dsascape.wording import count
from dsascape.workloads.loopnest import Box, box_volume, full_box

_MOST_NAMED = 3


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return the JSON document of a schedule."""
    graph, kept, numbers = schedule.graph, schedule.prefetch, iter(range(len(schedule.runs)))
    cores = max((run.binding.cores for run in schedule.runs), default=1)
    file = ScheduleFile(
        format=FORMAT,
        network=network_record(graph, schedule.dtype),
        machine=MachineRecord(
            kind="clustered_dsa", clusters=schedule.clusters, cores_per_cluster=cores,
            clusters_share=schedule.clusters_share,
        ),
        policy=schedule.policy,
        queue_order=schedule.queue_order,
        burst_bytes=schedule.burst_bytes,
        origin=origin_record(schedule.plan),
        prefetch=None if kept is None else PrefetchRecord.model_validate(_fields(kept)),
        groups=tuple(
            GroupRecord(
                operators=group.ops, reason=group.boundary_reason,
                split=None if group.split is None else SplitRecord.model_validate(_fields(group.split)),
            )
            for group in schedule.plan.groups
        ),
        slices=tuple(
            SliceRecord(
                tensor=each.tensor, box=each.box, memory=each.memory, address=each.address,
                cores=each.binding.factors, order=each.binding.order, divided=_parts(each.divided),
            )
            for each in schedule.slices
        ),
        instances=tuple(
            InstanceRecord(
                name=instance.name, group=instance.group,
                runs=tuple(_run_record(schedule, run, next(numbers)) for run in instance.runs),
            )
            for instance in schedule.instances
        ),
        pins=schedule.pins,
    )  # fmt: skip
    return without_empty_pins(file.model_dump(mode="json"))


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _run_record(schedule: Schedule, run: LayerRun, number: int) -> RunRecord:
    execution = schedule.executions[number]
    tiling, halo = execution.tiling, execution.exchange
    return RunRecord(
        number=number, output=run.layer.sink.name, operators=run.layer.ops, box=run.box, cores=run.binding.factors,
        order=run.binding.order, reads=dict(run.reads), writes=run.writes, tile=tiling.tile, tile_order=tiling.order,
        depth=tiling.depth, prefetched=tuple(tiling.prefetched), staged=tuple(tiling.staged),
        store_burst_bytes=tiling.store_burst_bytes, units=execution.units,
        routes={name: RouteRecord.of(route) for name, route in execution.routes.items()},
        halo=HaloRecord(core_bytes=halo.core_bytes, rounds=halo.rounds), begins_after=execution.begins_after,
        divided=_parts(run.divided), from_clusters_bytes=execution.from_clusters_bytes,
        addresses=AddressesRecord.model_validate(_fields(execution.addresses)),
    )  # fmt: skip


def _parts(divided: Binding | None) -> tuple[int, ...] | None:
    return None if divided is None else divided.factors


def read_schedule(data: object, costs: DsaCosts) -> Schedule:
    """Return the schedule of a document written by `schedule_json` for the network of ``costs``.

    Raises ``ScheduleError``, with the reasons, for data that is no schedule, is for another network or machine, or
    cannot run.
    """
    try:
        file = ScheduleFile.model_validate(data)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ScheduleError(f"schedule: {where}: {first['msg']}") from error
    schedule = _Reader(file, costs).schedule()
    broken = list(dict.fromkeys(violations(schedule, costs.view)))
    if broken:
        more = f"; and {len(broken) - _MOST_NAMED} more" if len(broken) > _MOST_NAMED else ""
        raise ScheduleError(f"schedule: {'; '.join(broken[:_MOST_NAMED])}{more}")
    return schedule


class _Reader:
    """Builds a schedule from a file; refuses references to things that the network or the machine does not have."""

    def __init__(self, file: ScheduleFile, costs: DsaCosts) -> None:
        self._file = file
        self._costs = costs
        self._graph = costs.analysis.graph

    def schedule(self) -> Schedule:
        file, view = self._file, self._costs.view
        self._same("network.name", file.network.name, self._graph.name)
        self._same("network.batch (of one cluster)", file.network.batch, self._graph.batch)
        self._same("network.operators", file.network.operators, len(self._graph.ops))
        self._same("network.dtype", file.network.dtype, self._costs.dtype)
        self._same("machine.clusters", file.machine.clusters, view.clusters)
        share = "kernels" if view.divides_kernels else "batch"
        self._same("machine.clusters_share", file.machine.clusters_share, share)
        if file.machine.cores_per_cluster > view.cores_per_cluster:
            self._same("machine.cores_per_cluster", file.machine.cores_per_cluster, view.cores_per_cluster)
        slices = tuple(self._slice(each, number) for number, each in enumerate(file.slices))
        instances: list[Instance] = []
        executions: list[Execution] = []
        for instance in file.instances:
            runs = []
            for record in instance.runs:
                where = f"run {record.number} ({record.output})"
                if record.number != len(executions):
                    raise ScheduleError(f"schedule: {where}: is number {len(executions)} in the file")
                try:
                    run = self._run(record, len(slices))
                    runs.append(run)
                    executions.append(self._execution(record, run, slices))
                except (ScheduleError, HardwareError) as error:
                    raise ScheduleError(f"schedule: {where}: {error}") from error
            if instance.group >= len(file.groups):
                raise ScheduleError(f"schedule: instance {instance.name!r} is of group {instance.group}; there is none")
            instances.append(Instance(instance.name, instance.group, tuple(runs)))
        prefetch = None if file.prefetch is None else PrefetchBuffers(**file.prefetch.model_dump())
        return Schedule(
            self._plan(), tuple(instances), slices, self._costs.dtype, view.clusters, tuple(executions), prefetch,
            file.burst_bytes, file.queue_order, file.policy, file.machine.clusters_share, file.pins,
        )  # fmt: skip

    def _same(self, what: str, has: object, needs: object) -> None:
        if has != needs:
            raise ScheduleError(f"schedule: {what} is {has}; the run has {needs}")

    def _plan(self) -> FusionPlan:
        groups = []
        for number, group in enumerate(self._file.groups):
            self._known_operators(group.operators, f"schedule: groups.{number}")
            split = None if group.split is None else Split(group.split.dim, group.split.factor)
            groups.append(Group(group.operators, group.reason, split))
        origin = self._file.origin
        return FusionPlan(self._graph, tuple(groups), origin.scheduled_by, origin.rewritten, origin.text)

    def _known_operators(self, operators: tuple[int, ...], where: str) -> None:
        for position in operators:
            if position >= len(self._graph.ops):
                raise ScheduleError(f"{where}: there is no operator {position}; there are {len(self._graph.ops)}")

    def _slice(self, record: SliceRecord, number: int) -> TensorSlice:
        where = f"schedule: slices.{number} ({record.tensor})"
        tensor = self._graph.tensors.get(record.tensor)
        if tensor is None:
            raise ScheduleError(f"{where}: the network has no such tensor")
        self._in_shape(record.box, tensor.shape, where)
        binding = _binding(record.cores, record.order, len(tensor.shape), where)
        divided = _division(record.divided, record.box, where)
        if record.memory not in self._costs.view.level:
            known = ", ".join(self._costs.view.level)
            raise ScheduleError(f"{where}: there is no memory {record.memory!r}; the machine has {known}")
        size_bytes = tensor.bytes_of(box_volume(record.box)) // (1 if divided is None else divided.cores)
        return TensorSlice(record.tensor, record.box, record.memory, binding, size_bytes, record.address, divided)

    def _in_shape(self, box: tuple[tuple[int, int], ...], shape: tuple[int, ...], where: str) -> None:
        if len(box) != len(shape) or any(not lo < hi <= size for (lo, hi), size in zip(box, shape, strict=False)):
            raise ScheduleError(f"{where}: box {list(map(list, box))} is no part of shape {list(shape)}")

    def _run(self, record: RunRecord, slices: int) -> LayerRun:
        self._known_operators(record.operators, "operators")
        if not record.operators or list(record.operators) != sorted(set(record.operators)):
            raise ScheduleError("operators: needs at least one, ascending")
        layer = Layer(self._graph, record.operators, self._costs.analysis)
        if record.output != layer.sink.name:
            raise ScheduleError(f"output is {record.output!r}; its operators end with {layer.sink.name!r}")
        self._in_shape(record.box, layer.sink.shape, "box")
        for number in (*record.writes, *(number for held in record.reads.values() for number in held)):
            if number >= slices:
                raise ScheduleError(f"there is no slice {number}; there are {slices}")
        for name in record.reads:
            if name not in layer.inputs:
                raise ScheduleError(f"reads: {name!r} is no input; inputs are {', '.join(layer.inputs)}")
        binding = _binding(record.cores, record.order, len(record.box), "cores")
        divided = _division(record.divided, full_box(layer.sink.shape), "divided")
        together = tuple([name for name, route in record.routes.items() if route.route.is_loaded_together])
        return LayerRun(layer, record.box, binding, dict(record.reads), record.writes, divided, together)

    def _execution(self, record: RunRecord, run: LayerRun, slices: tuple[TensorSlice, ...]) -> Execution:
        routes = {name: route.route for name, route in record.routes.items()}
        exchange = HaloExchange(record.halo.core_bytes)
        if record.halo.core_bytes and self._costs.view.global_buffer_bytes:
            exchange = in_rounds(record.halo.core_bytes, run.binding.cores, record.halo.rounds)
        places = record.addresses
        addresses = TileAddresses(**{name: _plain(getattr(places, name)) for name in AddressesRecord.model_fields})
        return Execution(
            routes, record.units, self._tiling(record, run, routes, slices), exchange, addresses, record.begins_after,
            record.from_clusters_bytes,
        )  # fmt: skip

    def _tiling(
        self, record: RunRecord, run: LayerRun, routes: dict[str, Route], slices: tuple[TensorSlice, ...]
    ) -> Tiling:
        part = run.binding.part_extents(run.extents)
        if len(record.tile) != len(part) or any(tile > whole for tile, whole in zip(record.tile, part, strict=False)):
            raise ScheduleError(f"tile {list(record.tile)} is larger than a core's part {list(part)}")
        if sorted(record.tile_order) != list(range(len(part))):
            raise ScheduleError(f"tile_order {list(record.tile_order)} is no order of {count(len(part), 'dimension')}")
        operands = run.layer.tile_work(run.extents).operand_bytes
        for name in routes:
            if name not in operands:
                raise ScheduleError(f"routes: {name!r} is not read; read are {', '.join(operands)}")
        if len(record.units) != len(run.layer.tile_work(part).nests):
            raise ScheduleError(f"units has {len(record.units)}; needs {len(run.layer.tile_work(part).nests)}")
        for unit in record.units:
            if unit not in self._costs.view.spec.units:
                raise ScheduleError(f"units: there is no {unit!r}; known: {', '.join(self._costs.view.spec.units)}")
        kept, shares = self._file.prefetch, output_shares(run, slices)
        request = TileRequest(
            layer=run.layer, box=run.extents, part=part, cores=run.binding.cores, units=record.units, routes=routes,
            output_memory=outermost_memory(shares) if run.writes else "local_buffer",
            stored_in=outside_shares(shares),
            local_gaps=(), global_gaps=(), dtype=self._costs.dtype,
            prefetch=None if kept is None else (kept.local_bytes, kept.global_bytes),
            reloads=self._costs.view.spec.local_buffer.reloads,
        )  # fmt: skip
        candidates = TileCandidates(request, self._costs.view)
        if record.depth is not None and record.depth > candidates.depth_extent:
            raise ScheduleError(f"depth {record.depth} exceeds the layer's {candidates.depth_extent}")
        return candidates.decided(
            record.tile, record.depth, record.tile_order, record.prefetched, record.staged, record.store_burst_bytes
        )


def _plain(places: dict[str, Addresses] | Addresses) -> Any:
    return dict(places) if isinstance(places, dict) else places


def _division(parts: tuple[int, ...] | None, box: Box, where: str) -> Binding | None:
    """Return the division of ``box`` among clusters; raise ``ScheduleError`` for parts that are not equally large."""
    if parts is None:
        return None
    if len(parts) != len(box) or any((hi - lo) % part for (lo, hi), part in zip(box, parts, strict=False)):
        raise ScheduleError(f"{where}: divided {list(parts)} does not divide box {list(map(list, box))} evenly")
    return Binding(parts, tuple(range(len(parts))))


def _binding(factors: tuple[int, ...], order: tuple[int, ...], rank: int, where: str) -> Binding:
    if len(factors) != rank or sorted(order) != list(range(rank)):
        raise ScheduleError(
            f"{where}: cores {list(factors)} in order {list(order)} do not bind {count(rank, 'dimension')}"
        )
    return Binding(factors, order)
