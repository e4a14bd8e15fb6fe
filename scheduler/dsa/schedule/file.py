"""The records of a schedule file: its form, checked when it is read."""

from typing import Annotated, Final, Literal

from pydantic import Field

from dsascape.scheduler.dsa.schedule.schedule import BufferScope, QueueOrder
from dsascape.scheduler.kernels.schedule_file import NetworkRecord, Number, Numbers, OriginRecord, Record, Size

FORMAT: Final = "dsascape schedule 1"

Share = Annotated[float, Field(ge=0, le=1)]
Interval = Annotated[tuple[Number, Number], Field(strict=False)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class MachineRecord(Record):
    """The machine that the schedule is for."""

    kind: Literal["clustered_dsa"]
    clusters: Size
    cores_per_cluster: Size


class SplitRecord(Record):
    """How a group is cut into instances."""

    dim: Number
    factor: Size


class GroupRecord(Record):
    """Operators of one kernel, by position in the network, and why it took no more."""

    operators: Numbers
    reason: str
    split: SplitRecord | None


class PrefetchRecord(Record):
    """The prefetch buffers for weights, in bytes."""

    local_bytes: Number
    global_bytes: Number
    local_address: Number
    global_address: Number


class SliceRecord(Record):
    """A stored part of an activation: its box, the memory and address that it lies at, its cores per dimension."""

    tensor: str
    box: Annotated[tuple[Interval, ...], Field(strict=False)]
    memory: BufferScope
    address: Number | None
    cores: Annotated[tuple[Size, ...], Field(strict=False)]
    order: Numbers


class RouteRecord(Record):
    """Shares of an operand that come from DDR and from the global buffer, and how many cores get the same bytes."""

    from_ddr: Share
    from_global: Share
    cores_sharing: Size
    broadcast: bool


class AddressesRecord(Record):
    """Left out, the run's tiles have no fixed place, and it has the memories to itself beside what is kept there."""

    operands: dict[str, Numbers] = Field(default_factory=dict)
    between: Numbers = ()
    output: Numbers = ()
    halo: Numbers = ()
    staged: dict[str, Numbers] = Field(default_factory=dict)
    passing: Numbers = ()
    storing: Numbers = ()
    sent: Numbers = ()


class HaloRecord(Record):
    """Bytes that a core fetches from other cores' local buffers, and in how many rounds."""

    core_bytes: Number
    rounds: Size


class RunRecord(Record):
    """One layer run: what it computes on which cores, what it reads and writes (slices by number), how it is tiled."""

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
