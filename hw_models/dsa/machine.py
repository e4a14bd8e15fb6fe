"""Simulated machine of a clustered scratchpad accelerator: units, memories, and cost models of its engines."""

from dataclasses import replace

from dsascape.hw_models.common.spec_types import NETWORK_DTYPES
from dsascape.hw_models.common.summary import MachineSummary, OnChipTotal
from dsascape.hw_models.dsa.arrays import product_cycles
from dsascape.hw_models.dsa.levels import CHIP, CLUSTER, CLUSTER_LINK, CORE
from dsascape.hw_models.dsa.memories import Channel, ClusterLink, DmaChannel, OnChipPath
from dsascape.hw_models.dsa.spec import ClusteredDsa
from dsascape.hw_models.dsa.units import ComputeUnit, MatrixUnit
from dsascape.hw_models.simulation.clock import whole_ps
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.simulation.instructions import Compute, Launch, Payload, ProgramError, Transfer
from dsascape.hw_models.simulation.machine import (
    HardwareError,
    Level,
    Machine,
    Members,
    Memory,
    Serve,
    Service,
    Unit,
    ceil_ps,
)


def dsa_machine(spec: ClusteredDsa) -> Machine:
    """Return the memories and units of a clustered scratchpad accelerator.

    Units: those of the cores, by their names; per core ``path_load`` and ``path_store`` between global and
    local buffer; per cluster ``broadcast`` to all cores, a load and a store unit for each memory beyond the global
    buffer (``dma_load`` and ``dma_store`` for DDR), ``cluster_exchange`` if clusters have a link, and ``launch``. The
    link, ``cluster_link``, is a memory without capacity, whose bandwidth transfers share; memories are
    listed innermost first, and it comes after the global buffer.
    """
    levels, link = spec.levels, spec.cluster_link
    memories = [Memory(each.name, each.of, each.capacity_bytes, each.bandwidth_bytes_per_s) for each in levels]
    if link is not None:
        of = CHIP if link.topology == "bus" else CLUSTER
        memories.insert(2, Memory(CLUSTER_LINK, of, 0, link.bandwidth_bytes_per_s))  # beside the global buffers
    units = []
    for name, unit in spec.units.items():
        units.append(Unit(name, CORE, (Members(spec.cores_per_cluster, _computing(spec, name, unit)),)))
    for mover in spec.movers:
        width = spec.cores_per_cluster if mover.of == CORE else spec.clusters
        channel = mover.channel
        serve = _exchanging(mover.unit, channel) if isinstance(channel, ClusterLink) else _moving(mover.unit, channel)
        units.append(Unit(mover.unit, mover.of, (Members(width, serve),), mover.servers, channel.in_flight))
    units.append(Unit("launch", CLUSTER, (Members(spec.clusters, _launching(spec)),)))
    return Machine(
        spec.name,
        (Level(CLUSTER, spec.clusters), Level(CORE, spec.cores_per_cluster)),
        {memory.name: memory for memory in memories},
        {unit.name: unit for unit in units},
    )


def dsa_energy(spec: ClusteredDsa) -> EnergyModel:
    """Return the energy model: picojoules per operation and per byte of each memory."""
    energy = spec.energy
    return EnergyModel(
        machine=spec.name,
        mac_pj={str(dtype): value for dtype, value in energy.mac.items()},
        simple_pj=energy.vector_op,
        special_pj=energy.special_op,
        link="on_chip_path",
        link_pj={unit: pj for unit, pj in spec.link_pj.items() if pj},
        byte_pj=spec.byte_pj | _of_link(spec),
        static_power_w=spec.static_power_w,
        static_parts_w=spec.static_parts_w,
        register_mac_pj={str(dtype): pj for dtype in energy.mac if (pj := spec.register_mac_pj(dtype))},
    )


def _of_link(spec: ClusteredDsa) -> dict[str, float]:
    """Return the picojoules per byte of the link between clusters by its name; empty without one."""
    return {} if spec.cluster_link is None else {CLUSTER_LINK: spec.cluster_link.energy}


def dsa_summary(spec: ClusteredDsa) -> MachineSummary:
    """Return a one-line summary; the peak is for the first dtype of the first compute unit."""
    unit = next(iter(spec.units.values()))
    dtype = next(iter(unit.macs_per_cycle if isinstance(unit, MatrixUnit) else unit.lanes))
    memories = [
        OnChipTotal(name=level.name, capacity_bytes=level.capacity_bytes, copies=level.copies)
        for level in spec.levels[:-1]
    ]
    return MachineSummary(
        cores=spec.cores, arrangement=f"{spec.clusters} x {spec.cores_per_cluster}", dtype=dtype,
        peak_macs_per_s=spec.peak_macs_per_s(dtype), on_chip=tuple(memories),
        off_chip_bytes_per_s=spec.ddr.bandwidth_bytes_per_s, off_chip_efficiency=spec.ddr.efficiency,
    )  # fmt: skip


def dsa_dtypes(spec: ClusteredDsa) -> frozenset[str]:
    """Return the dtypes of whole networks that a vector unit computes, and a matrix unit too if the machine has any."""
    matrix = [set(u.rates) for u in spec.units.values() if isinstance(u, MatrixUnit)]
    vector = [set(u.rates) for u in spec.units.values() if not isinstance(u, MatrixUnit)]
    every = set().union(*vector) & {*NETWORK_DTYPES}
    return frozenset(every & set().union(*matrix) if matrix else every)


def _launching(spec: ClusteredDsa) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Launch):
            raise ProgramError(f"launch starts kernels only, not {type(payload).__name__}")
        return Service(spec.launch_ps, 0, 0, (), "launch")

    return serve


def _moving(name: str, channel: Channel | OnChipPath) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Transfer):
            raise ProgramError(f"{name} moves data only, not {type(payload).__name__}")
        size = payload.size_bytes
        touches = _moved(payload.source, payload.destination, payload.fan_out)
        duration = ceil_ps(size, channel.bandwidth_bytes_per_s)
        if isinstance(channel, DmaChannel):
            duration = max(duration, channel.requests_ps(size, payload.pieces))
        return Service(channel.startup_ps * payload.bursts, duration, size, touches, name)

    return serve


def _exchanging(name: str, link: ClusterLink) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Transfer) or not payload.link:
            raise ProgramError(f"{name} moves data over the link between clusters only")
        crossing = 1.0 if link.topology == "bus" else float(payload.fan_out)
        ends = _moved(payload.source, payload.destination, payload.fan_out)
        return Service(link.startup_ps * payload.bursts, 0, payload.size_bytes, (*ends, (payload.link, crossing)), name)

    return serve


def _moved(source: str, destination: str, fan_out: int) -> tuple[tuple[str, float], ...]:
    """Return how often each byte of a transfer crosses the port of its source, and of its destination."""
    if source == destination:
        return ((source, 1.0 + fan_out),)
    return ((source, 1.0), (destination, float(fan_out)))


def _computing(spec: ClusteredDsa, name: str, unit: ComputeUnit) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Compute):
            raise ProgramError(f"{name} computes only, not {type(payload).__name__}")
        largest = max((size for _, size in payload.traffic), default=0)
        touches = tuple((memory, size / largest) for memory, size in payload.traffic if size)
        return Service(0, compute_ps(spec, name, unit, payload), largest, touches, name)

    return serve


def compute_ps(spec: ClusteredDsa, name: str, unit: ComputeUnit, work: Compute) -> int:
    """Return the time of ``work`` on ``unit`` in picoseconds.

    The cycles of a matrix unit come from its array model (`hw_models.dsa.arrays`). A vector unit spends one cycle per
    ``lanes`` simple operations or multiply-accumulates, and ``special_cycles`` per ``lanes`` special ones. Every round
    pays for its own fill and drain, or for its partly filled lanes. Raises ``HardwareError`` for a dtype that the unit
    lacks, ``ProgramError`` for anything but matrix products on a matrix unit.
    """
    rate = unit.rates.get(work.dtype)
    if rate is None:
        raise HardwareError(f"{spec.name}: unit {name!r} computes {', '.join(unit.rates)}, not {work.dtype}")
    if isinstance(unit, MatrixUnit):
        if work.shape is None or work.simple or work.special:
            raise ProgramError(f"matrix unit {name!r} computes matrix products only")
        each = replace(work.shape, count=work.shape.count // work.rounds)
        cycles = product_cycles(unit, each, rate // unit.count)
    else:
        simple, macs, special = (
            -(-operations // (rate * work.rounds)) for operations in (work.simple, work.macs, work.special)
        )
        cycles = simple + macs + special * unit.special_cycles
    cycles *= work.rounds
    return whole_ps(cycles * spec.cycle_ps / unit.efficiency)
