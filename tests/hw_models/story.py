"""A machine whose runs can be worked out by hand, with short names for its instructions.

It moves one byte per picosecond between DDR and the global buffer and from there to each local buffer, and its
clock ticks every picosecond, so that sizes are times.
"""

from collections.abc import Mapping

from dsascape.hw_models import (
    Buffer,
    ClusteredDsa,
    Compute,
    Instruction,
    Launch,
    MatrixShape,
    Program,
    SimulationResult,
    Transfer,
    dsa_energy,
    dsa_machine,
    load_hardware,
    with_values,
)
from tests.hw_models.every_engine import simulated_on_every_engine

SPEC = with_values(
    load_hardware("stcp920", ClusteredDsa),
    {
        "name": "story",
        "ddr.sharing": "shared",
        "clock": "1000 GHz",
        "units.matrix.array": "ideal",
        "clusters": 2,
        "cores_per_cluster": 2,
        "ddr.bandwidth": "1 TB/s",
        "ddr.efficiency": 1.0,
        "dma.load.bandwidth": "1 TB/s",
        "dma.load.startup": "0 ps",
        "dma.load.in_flight": 1,
        "dma.store.bandwidth": "1 TB/s",
        "dma.store.startup": "0 ps",
        "dma.store.in_flight": 1,
        "on_chip_path.bandwidth": "1 TB/s",
        "on_chip_path.startup": "0 ps",
        "global_buffer.bandwidth": "100 TB/s",
        "global_buffer.capacity": "1000 B",
        "local_buffer.bandwidth": "100 TB/s",
        "local_buffer.capacity": "100 B",
        "launch": "7 ps",
    },
)
LANES = 64


def program(
    *instructions: Instruction, buffers: tuple[Buffer, ...] = (), spec: ClusteredDsa = SPEC,
    clusters: int = 1, cores: int = 1,
) -> Program:  # fmt: skip
    return dsa_machine(spec).program(instructions, buffers, cluster=clusters, core=cores)


def simulated(program: Program, spec: ClusteredDsa = SPEC) -> SimulationResult:
    return simulated_on_every_engine(program, dsa_machine(spec), dsa_energy(spec))


def run(
    *instructions: Instruction, buffers: tuple[Buffer, ...] = (), spec: ClusteredDsa = SPEC,
    clusters: int = 1, cores: int = 1,
) -> SimulationResult:  # fmt: skip
    return simulated(program(*instructions, buffers=buffers, spec=spec, clusters=clusters, cores=cores), spec)


def timeline(result: SimulationResult) -> list[tuple[str, int, int]]:
    trace = result.trace
    return [(i.label, trace.start_ps[p], trace.end_ps[p]) for p, i in enumerate(trace.instructions)]


def load(label: str, size_bytes: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = ()) -> Instruction:
    moved = Transfer(source="ddr", destination="global_buffer", size_bytes=size_bytes)
    return Instruction(unit="dma_load", payload=moved, label=label, after=after, allocates=allocates)


def store(label: str, size_bytes: int) -> Instruction:
    moved = Transfer(source="global_buffer", destination="ddr", size_bytes=size_bytes)
    return Instruction(unit="dma_store", payload=moved, label=label)


def fetch(label: str, size_bytes: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = ()) -> Instruction:
    moved = Transfer(source="global_buffer", destination="local_buffer", size_bytes=size_bytes)
    return Instruction(unit="path_load", payload=moved, label=label, after=after, allocates=allocates)


def broadcast(
    label: str, size_bytes: int, fan_out: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = (),
    frees: tuple[int, ...] = (),
) -> Instruction:  # fmt: skip
    moved = Transfer(source="global_buffer", destination="local_buffer", size_bytes=size_bytes, fan_out=fan_out)
    return Instruction(unit="broadcast", payload=moved, label=label, after=after, allocates=allocates, frees=frees)


def add(
    label: str, time_ps: int, after: tuple[int, ...] = (), frees: tuple[int, ...] = (), local_bytes: int = 0
) -> Instruction:
    work = Compute(dtype="fp16", simple=LANES * time_ps, traffic=(("local_buffer", local_bytes),))
    return Instruction(unit="vector", payload=work, label=label, after=after, frees=frees)


def product(label: str, rows: int, columns: int, depth: int, count: int = 1) -> Instruction:
    return Instruction(unit="matrix", payload=products(rows, columns, depth, count), label=label)


def products(
    rows: int, columns: int, depth: int, count: int = 1, dtype: str = "fp16", traffic: Mapping[str, int] | None = None
) -> Compute:
    shape = MatrixShape(rows, columns, depth, count)
    return Compute(dtype=dtype, macs=shape.macs, shape=shape, traffic=tuple((traffic or {}).items()))


def launch(
    label: str = "", after: tuple[int, ...] = (), allocates: tuple[int, ...] = (), frees: tuple[int, ...] = ()
) -> Instruction:
    return Instruction(unit="launch", payload=Launch(), label=label, after=after, allocates=allocates, frees=frees)
