"""Records of a schedule file: its schema, validated on reading."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from dsascape.scheduler.dsa.schedule.schedule import BufferScope, ClustersShare, QueueOrder
from dsascape.scheduler.dsa.tiling.tiling import Route
from dsascape.scheduler.kernels.schedule_file import NetworkRecord, Number, Numbers, OriginRecord, Record, Size
from dsascape.scheduler.pins.pins import AppliedPin

FORMAT: Final = "dsascape schedule 1"

Share = Annotated[float, Field(ge=0, le=1)]
Interval = Annotated[tuple[Number, Number], Field(strict=False)]
Names = Annotated[tuple[str, ...], Field(strict=False)]
Parts = Annotated[tuple[Size, ...], Field(strict=False)] | None
"""Parts per dimension, one per cluster; None for a box that every cluster has as a whole."""


class MachineRecord(Record):
    """The machine that the schedule is for."""

    kind: Literal["clustered_dsa"]
    clusters: Size
    cores_per_cluster: Size
    clusters_share: ClustersShare = "batch"


class SplitRecord(Record):
    """Split of a group into instances: dimension and factor."""

    dim: Number
    factor: Size


class GroupRecord(Record):
    """Operators of one kernel, by position in the network, and the reason why it contains no more."""

    operators: Numbers
    reason: str
    split: SplitRecord | None


class PrefetchRecord(Record):
    """Sizes and addresses of the prefetch buffers for weights, in bytes."""

    local_bytes: Number
    global_bytes: Number
    local_address: Number
    global_address: Number


class SliceRecord(Record):
    """Stored part of an activation: its box, memory, address, cores per dimension, and its division among clusters."""

    tensor: str
    box: Annotated[tuple[Interval, ...], Field(strict=False)]
    memory: BufferScope
    address: Number | None
    cores: Annotated[tuple[Size, ...], Field(strict=False)]
    order: Numbers
    divided: Parts = None


class RouteRecord(Record):
    """Route of an operand: share from each memory, and the number of cores sharing the bytes."""

    from_ddr: Share
    from_global: Share
    cores_sharing: Size
    broadcast: bool
    from_further: dict[str, Share] = Field(default_factory=dict)
    """Shares from levels between the global buffer and DDR, by name."""
    from_clusters: Share = 0.0
    """Share received over the link between clusters."""
    receivers: Size = 1
    """Clusters that receive each byte sent over the link."""

    @classmethod
    def of(cls, route: Route) -> "RouteRecord":
        """Return the record of ``route``."""
        return cls(**{**route._asdict(), "from_further": dict(route.from_further)})

    @property
    def route(self) -> Route:
        """Route that the record is of."""
        further = tuple(self.from_further.items())
        shares = self.from_ddr, self.from_global, self.cores_sharing, self.broadcast, further
        return Route(*shares, self.from_clusters, self.receivers)

    @model_serializer(mode="wrap")
    def _without_empty_levels(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        if not self.from_further:
            del written["from_further"]
        if not self.from_clusters:
            del written["from_clusters"], written["receivers"]
        return written


class AddressesRecord(Record):
    """Addresses of a run's buffers. If left out, tiles have none, and the run uses all free space alone."""

    operands: dict[str, Numbers] = Field(default_factory=dict)
    between: Numbers = ()
    output: Numbers = ()
    halo: Numbers = ()
    staged: dict[str, Numbers] = Field(default_factory=dict)
    passing: Numbers = ()
    storing: Numbers = ()
    sent: Numbers = ()


class HaloRecord(Record):
    """Halo exchange: bytes that a core fetches from other cores' local buffers, and the number of rounds."""

    core_bytes: Number
    rounds: Size


class RunRecord(Record):
    """One layer run: operators, the first cluster's box, cores, slices read and written (by number), and tiling."""

    number: Number
    output: str
    operators: Numbers
    box: Annotated[tuple[Interval, ...], Field(strict=False)]
    cores: Annotated[tuple[Size, ...], Field(strict=False)]
    order: Numbers
    reads: dict[str, Numbers]
    writes: Numbers
    tile: Annotated[tuple[Size, ...], Field(strict=False)]
    tile_order: Numbers
    depth: Size | None
    prefetched: Names
    staged: Names
    store_burst_bytes: Number
    units: Names
    routes: dict[str, RouteRecord]
    halo: HaloRecord
    begins_after: Annotated[int, Field(ge=-1)]
    divided: Parts = None
    from_clusters_bytes: Number = 0
    addresses: AddressesRecord = AddressesRecord()


class InstanceRecord(Record):
    """One launch of a kernel and its layer runs in order."""

    name: str
    group: Number
    runs: Annotated[tuple[RunRecord, ...], Field(strict=False)]


class ScheduleFile(Record):
    """A whole schedule file."""

    format: Literal["dsascape schedule 1"]
    network: NetworkRecord
    machine: MachineRecord
    policy: str
    queue_order: QueueOrder
    burst_bytes: Size
    prefetch: PrefetchRecord | None
    origin: OriginRecord = OriginRecord()
    groups: Annotated[tuple[GroupRecord, ...], Field(strict=False)]
    slices: Annotated[tuple[SliceRecord, ...], Field(strict=False)]
    instances: Annotated[tuple[InstanceRecord, ...], Field(strict=False)]
    pins: Annotated[tuple[AppliedPin, ...], Field(strict=False)] = ()
