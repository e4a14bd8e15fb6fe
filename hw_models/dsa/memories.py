"""Memories of a clustered DSA and the channels between them, as a machine file states them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from dsascape.hw_models.common.spec_types import STRICT, Count, Efficiency
from dsascape.hw_models.common.technology import WIDEST_ACCESS_BYTES
from dsascape.hw_models.simulation.instructions import Pieces
from dsascape.hw_models.text.quantities import (
    Bytes,
    BytesPerSecond,
    PicojoulesPerByte,
    PicojoulesPerByteOrBySize,
    Picoseconds,
)

InFlight = Annotated[int, Field(gt=0, le=256)]
RESERVED_NAMES = (
    "launch", "dma_load", "dma_store", "path_load", "path_store", "broadcast",
    "local_buffer", "global_buffer", "ddr", "space", "cluster_link", "cluster_exchange",
)  # fmt: skip
"""Names that the figures of a run use: units and memories of every machine, and the wait for space."""


_COMPONENTS = (
    "macs", "vector", "instructions", "registers", "on_chip_path", "clock", "static", "static_cores",
    "static_interface",
)  # fmt: skip
"""Names of the components of energy that are no memories."""


def not_reserved(name: str) -> str:
    """Return ``name``; raise ``ValueError`` if the figures of a run use it for something that every machine has."""
    if name in RESERVED_NAMES:
        raise ValueError(f"is a reserved name; needs another one than {', '.join(RESERVED_NAMES)}")
    return name


def _no_component(name: str) -> str:
    if name in _COMPONENTS:
        raise ValueError(f"is a component of energy; needs another name than {', '.join(_COMPONENTS)}")
    return name


LevelName = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_]{0,23}$"), AfterValidator(not_reserved), AfterValidator(_no_component)
]


class LocalBuffer(BaseModel):
    """Software-managed scratchpad of one core. Nothing is evicted unless the program says so."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity per core."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth per core, shared by reads and writes."""
    access_bytes: Annotated[Bytes, Field(ge=8, le=WIDEST_ACCESS_BYTES)] | None = Field(None, alias="access")
    """Bytes that one access of a bank reads or writes, on which the energy of a byte depends; by default the bytes of a
    cycle at full bandwidth, from 8 to 64, in whole powers of two."""
    weight_window: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the capacity that a schedule reserves for streamed weights."""
    reloads: bool = False
    """Whether every tile, and every step along its depth, loads all of its operands, also those that the tile before it
    had: as where one half of the buffer is filled by one command while another computes from the other half. Otherwise
    an operand stays while tiles that follow each other need the same part of it."""


class GlobalBuffer(BaseModel):
    """Scratchpad that the cores of one cluster share."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity per cluster."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth per cluster, shared by reads and writes."""
    access_bytes: Annotated[Bytes, Field(ge=8, le=WIDEST_ACCESS_BYTES)] | None = Field(None, alias="access")
    """Bytes that one access of a bank reads or writes, on which the energy of a byte depends; by default the bytes of a
    cycle at full bandwidth, from 8 to 64, in whole powers of two."""


class Ddr(BaseModel):
    """Off-chip memory of the chip."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of the whole chip."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Peak bandwidth of the whole chip, shared by reads and writes."""
    efficiency: Efficiency = 1.0
    """Share of the peak bandwidth that long bursts reach."""
    sharing: Literal["shared", "private"] = "shared"
    """``shared``: clusters share all of it. ``private``: each has an equal part to itself, so weights are stored once
    per cluster, and idle clusters leave their bandwidth unused. Clusters that share every kernel read the others'
    results from their parts (assumed: every DMA engine reaches all of DDR)."""

    @property
    def sustained_bytes_per_s(self) -> int:
        """Bandwidth of the whole chip that long bursts reach."""
        return max(1, int(self.bandwidth_bytes_per_s * self.efficiency))


class Channel(BaseModel):
    """DMA channel: moves the data of one transfer at a time, in order, each after its start-up."""

    model_config = STRICT

    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth while data move."""
    startup_ps: Picoseconds = Field(alias="startup")
    """Latency from the descriptor's issue to the first byte."""
    in_flight: InFlight = 4
    """Outstanding descriptors: start-ups of that many transfers overlap, also with the data of earlier transfers.

    The default is an assumption; with 1, the channel moves nothing during a start-up.
    """


class DmaChannel(Channel):
    """DMA channel to DDR, which may move a transfer's data in requests."""

    request_bytes: Bytes | None = Field(default=None, alias="request")
    """Most bytes of one request to memory, all of which are contiguous there: a row of a tile that is shorter is a
    request all the same. None: neither the number of requests nor what is contiguous takes time."""
    requests_in_flight: InFlight = 16
    """Outstanding requests, if ``request`` is stated: as each takes ``startup``, one ends every ``startup`` /
    ``requests_in_flight``. The default is an assumption."""

    def requests_ps(self, size_bytes: int, pieces: Pieces) -> int:
        """Return the time in ps in which the requests for a transfer in these pieces end; 0 if they take no time."""
        if self.request_bytes is None:
            return 0
        requests = sum([number * -(-piece // self.request_bytes) for number, piece in pieces or ((1, size_bytes),)])
        return -(-requests * self.startup_ps // self.requests_in_flight)


class Dma(BaseModel):
    """DMA engine of one cluster: channels from DDR and channels to DDR."""

    model_config = STRICT

    load: DmaChannel
    """Channels from DDR to the global buffer (to the local buffers if there is no global one)."""
    store: DmaChannel
    """Channels from the global buffer to DDR (from the local buffers if there is no global one)."""
    load_channels: Count = 1
    """Load channels per cluster; each has the bandwidth stated under `load`. Where memory is too slow for all of them,
    the oldest transfer goes first."""
    store_channels: Count = 1
    """Store channels per cluster; each has the bandwidth stated under `store`, and the oldest transfer goes first."""


class OnChipPath(BaseModel):
    """Path of one core between global and local buffer: one transfer in each direction at a time."""

    model_config = STRICT

    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth per core in each direction, while data move."""
    startup_ps: Picoseconds = Field(alias="startup")
    """Latency from the command's issue to the first byte."""
    in_flight: InFlight = 1
    """Outstanding copy commands, as for DMA; the default, one at a time, is an assumption."""
    broadcast: bool
    """Whether one read of the global buffer can fill the local buffers of all cores of the cluster."""


class ClusterLink(Channel):
    """Link between the global buffers of the clusters, over which these exchange parts of tensors.

    Clusters that share every kernel send each other what they have computed, or have loaded from DDR for all. A byte
    leaves its cluster once, whatever the number of receivers.
    """

    topology: Literal["crossbar", "bus"]
    """``crossbar``: each cluster has a port of its own, at which all that it receives arrives. ``bus``: all clusters
    share one medium; a byte crosses it once and reaches all receivers."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth while data move: of each cluster's port, in each direction (``crossbar``), or of the medium
    (``bus``)."""
    startup_ps: Picoseconds = Field(alias="startup")
    """Latency from the issue of an exchange to its first byte."""
    energy: PicojoulesPerByte
    """Energy per byte, once per receiver, besides that of reading and writing the buffers at both ends."""


class FurtherLevel(BaseModel):
    """Scratchpad between the global buffer and DDR, for tensors that the global buffer does not hold.

    Its data pass through the global buffer, as those from DDR do; data of DDR do not pass through it.
    """

    model_config = STRICT

    of: Literal["cluster", "chip"]
    """``cluster``: each cluster has one. ``chip``: the clusters share one, and the clusters in use have equal parts."""
    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of one."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth of one, shared by reads and writes."""
    access_bytes: Annotated[Bytes, Field(ge=8, le=WIDEST_ACCESS_BYTES)] | None = Field(None, alias="access")
    """Bytes that one access of a bank reads or writes, on which the energy of a byte depends; by default the bytes of a
    cycle at full bandwidth, from 8 to 64, in whole powers of two."""
    path: Channel
    """Path of one cluster to the global buffer, and one of equal parameters from it."""
    energy: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its size."""
