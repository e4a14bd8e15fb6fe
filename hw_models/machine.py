"""A machine as the simulator sees it: memories with capacity and bandwidth, units that serve instructions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hw_models.bandwidth import whole_ps
from hw_models.clustered_dsa import Channel, ClusteredDsa, ComputeUnit, HardwareError, MatrixUnit
from hw_models.program import (
    AnyInstruction,
    Launch,
    MatrixCompute,
    Program,
    ProgramError,
    Scope,
    Transfer,
    VectorCompute,
    base_name,
)
from hw_models.quantities import PS_PER_S


@dataclass(frozen=True, slots=True)
class Memory:
    """One kind of memory; ``copies`` of it are alike. Capacity and bandwidth are those of one copy."""

    name: str
    capacity_bytes: int
    bandwidth_bytes_per_s: float
    copies: int


@dataclass(frozen=True, slots=True)
class Service:
    """What one member of a unit needs for one instruction when nobody is in its way."""

    startup_ps: int
    duration_ps: int
    """After the start-up, at full speed."""
    bytes_moved: int
    touches: tuple[tuple[str, float], ...]
    """Memories, and how often each of ``bytes_moved`` crosses their port for one member."""
    limit: str
    """What sets ``duration_ps``."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One kind of unit: how many exist, how many instructions of its queue one member serves at a time."""

    name: str
    scope: Scope
    count: int
    servers: int
    serve: Callable[[AnyInstruction], Service]


@dataclass(frozen=True, slots=True)
class Machine:
    """All memories and units of a machine, by name."""

    name: str
    clusters: int
    cores_per_cluster: int
    memories: Mapping[str, Memory]
    units: Mapping[str, Unit]

    @property
    def scopes(self) -> dict[str, Scope]:
        return {name: unit.scope for name, unit in self.units.items()}


def ceil_ps(amount: float, rate_per_s: float) -> int:
    """Return the whole picoseconds that ``amount`` takes at ``rate_per_s``."""
    return -int(-amount * PS_PER_S // rate_per_s)


def dsa_machine(spec: ClusteredDsa) -> Machine:
    """Return the memories and units of a clustered scratchpad accelerator.

    Units: those of the cores, by their names; per core ``path_load`` and ``path_store`` between global and
    local buffer; per cluster ``broadcast`` to all cores, ``dma_load``, ``dma_store`` and ``launch``.
    """
    memories = {
        "local_buffer": Memory(
            "local_buffer",
            spec.local_buffer.capacity_bytes,
            spec.local_buffer.bandwidth_bytes_per_s,
            spec.cores,
        ),
        "ddr": Memory("ddr", spec.ddr.capacity_bytes, spec.ddr.sustained_bytes_per_s, 1),
    }
    if spec.global_buffer is not None:
        memories["global_buffer"] = Memory(
            "global_buffer",
            spec.global_buffer.capacity_bytes,
            spec.global_buffer.bandwidth_bytes_per_s,
            spec.clusters,
        )
    units = {
        name: Unit(name, "core", spec.cores, 1, _compute_service(spec, name, unit))
        for name, unit in spec.units.items()
    }
    path = Channel.model_construct(
        bandwidth_bytes_per_s=spec.on_chip_path.bandwidth_bytes_per_s, startup_ps=spec.on_chip_path.startup_ps
    )
    for name in ("path_load", "path_store"):
        units[name] = Unit(name, "core", spec.cores, 1, _channel_service(name, path))
    if spec.on_chip_path.broadcast:
        units["broadcast"] = Unit(
            "broadcast", "cluster", spec.clusters, 1, _channel_service("broadcast", path)
        )
    dma = spec.dma
    for name, channel, servers in (
        ("dma_load", dma.load, dma.load_channels),
        ("dma_store", dma.store, dma.store_channels),
    ):
        units[name] = Unit(name, "cluster", spec.clusters, servers, _channel_service(name, channel))

    def launch(instruction: AnyInstruction) -> Service:
        if not isinstance(instruction, Launch):
            raise ProgramError(
                f"{instruction.label}: launch starts kernels only, not {type(instruction).__name__}"
            )
        return Service(spec.launch_ps, 0, 0, (), "launch")

    units["launch"] = Unit("launch", "cluster", spec.clusters, 1, launch)
    return Machine(spec.name, spec.clusters, spec.cores_per_cluster, memories, units)


def _channel_service(name: str, channel: Channel) -> Callable[[AnyInstruction], Service]:
    def serve(instruction: AnyInstruction) -> Service:
        if not isinstance(instruction, Transfer):
            raise ProgramError(
                f"{instruction.label}: {name} moves data only, not {type(instruction).__name__}"
            )
        size = instruction.size_bytes
        touches: tuple[tuple[str, float], ...]
        if instruction.source == instruction.destination:
            touches = ((instruction.source, 1.0 + instruction.fan_out),)
        else:
            touches = ((instruction.source, 1.0), (instruction.destination, float(instruction.fan_out)))
        duration = ceil_ps(size, channel.bandwidth_bytes_per_s)
        return Service(channel.startup_ps * instruction.bursts, duration, size, touches, name)

    return serve


def _compute_service(spec: ClusteredDsa, name: str, unit: ComputeUnit) -> Callable[[AnyInstruction], Service]:
    def serve(instruction: AnyInstruction) -> Service:
        if isinstance(instruction, Transfer | Launch):
            raise ProgramError(f"{instruction.label}: {name} computes only")
        duration = compute_ps(spec, name, unit, instruction)
        return Service(0, duration, instruction.local_bytes, (("local_buffer", 1.0),), name)

    return serve


def compute_ps(spec: ClusteredDsa, name: str, unit: ComputeUnit, work: MatrixCompute | VectorCompute) -> int:
    """Return how long ``unit`` takes for ``work``.

    A matrix unit makes ceil(rows/r) x ceil(columns/c) x ceil(depth/d) passes per product, operands swapped
    where that is fewer. A vector unit spends one cycle per ``lanes`` simple operations or products, and
    ``special_cycles`` per ``lanes`` special ones. Raises ``HardwareError`` for a dtype that it lacks.
    """
    rates = unit.macs_per_cycle if isinstance(unit, MatrixUnit) else unit.lanes
    rate = {str(dtype): value for dtype, value in rates.items()}.get(work.dtype)
    if rate is None:
        raise HardwareError(f"{spec.name}: unit {name!r} computes {', '.join(rates)}, not {work.dtype}")
    if isinstance(unit, MatrixUnit):
        if not isinstance(work, MatrixCompute):
            raise ProgramError(f"{work.label}: matrix unit {name!r} does products only")
        rows, columns, depth = unit.native_tile
        deep = -(-work.depth // depth)
        passes = min(
            -(-work.rows // rows) * -(-work.columns // columns),
            -(-work.columns // rows) * -(-work.rows // columns),
        )
        cycles = work.count * passes * deep * rows * columns * depth / rate
    elif isinstance(work, MatrixCompute):
        cycles = -(-work.macs // rate)
    else:
        cycles = (
            -(-work.simple // rate) + -(-work.macs // rate) + -(-work.special // rate) * unit.special_cycles
        )
    return whole_ps(cycles * spec.cycle_ps / unit.efficiency)


def check_program(program: Program, machine: Machine) -> None:
    """Raise ``ProgramError`` if ``program`` needs a unit, memory or place that ``machine`` does not have."""
    if program.clusters > machine.clusters or program.cores > machine.cores_per_cluster:
        raise ProgramError(
            f"the program runs on {program.clusters} clusters of {program.cores} cores,"
            f" {machine.name} has {machine.clusters} of {machine.cores_per_cluster}"
        )
    for unit, scope in program.scopes.items():
        known = machine.units.get(unit)
        if known is not None and known.scope != scope:
            raise ProgramError(f"{machine.name} has {unit} once per {known.scope}, the program per {scope}")
    for buffer in program.buffers:
        if base_name(buffer.memory) not in machine.memories:
            raise ProgramError(f"buffer {buffer.label!r}: {machine.name} has no memory {buffer.memory!r}")
    known_units: set[str] = set()
    known_ends: set[tuple[str, str]] = set()
    for instruction in program.instructions:
        if instruction.unit not in known_units:
            if base_name(instruction.unit) not in machine.units:
                raise ProgramError(f"{instruction.label}: {machine.name} has no unit {instruction.unit!r}")
            known_units.add(instruction.unit)
        if isinstance(instruction, Transfer) and (instruction.source, instruction.destination) not in known_ends:
            for memory in (instruction.source, instruction.destination):
                if base_name(memory) not in machine.memories:
                    raise ProgramError(f"{instruction.label}: {machine.name} has no memory {memory!r}")
            known_ends.add((instruction.source, instruction.destination))
