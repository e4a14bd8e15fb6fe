"""A machine whose runs can be worked out by hand, and short names for what it does.

It moves one byte per picosecond between DDR and the global buffer and from there to each local buffer, and its
clock ticks every picosecond, so that sizes are times.
"""

from hw_models import (
    AnyInstruction,
    Buffer,
    ClusteredDsa,
    MatrixCompute,
    Program,
    SimulationResult,
    Transfer,
    VectorCompute,
    load_hardware,
    simulate,
    with_values,
)
from hw_models.machine import dsa_machine

SPEC = with_values(
    load_hardware("stcp920"),
    {
        "name": "story",
        "clock": "1000 GHz",
        "clusters": 2,
        "cores_per_cluster": 2,
        "ddr.bandwidth": "1 TB/s",
        "ddr.efficiency": 1.0,
        "dma.load.bandwidth": "1 TB/s",
        "dma.load.startup": "0 ps",
        "dma.store.bandwidth": "1 TB/s",
        "dma.store.startup": "0 ps",
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


def run(
    *instructions: AnyInstruction, buffers: tuple[Buffer, ...] = (), spec: ClusteredDsa = SPEC,
    clusters: int = 1, cores: int = 1,
) -> SimulationResult:  # fmt: skip
    return simulate(Program(instructions, buffers, clusters, cores, dsa_machine(spec).scopes), spec)


def timeline(result: SimulationResult) -> list[tuple[str, int, int]]:
    trace = result.trace
    return [(i.label, trace.start_ps[p], trace.end_ps[p]) for p, i in enumerate(trace.instructions)]


def load(
    label: str, size_bytes: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = ()
) -> Transfer:
    return Transfer(
        unit="dma_load", label=label, source="ddr", destination="global_buffer", size_bytes=size_bytes,
        after=after, allocates=allocates,
    )  # fmt: skip


def store(label: str, size_bytes: int) -> Transfer:
    return Transfer(
        unit="dma_store", label=label, source="global_buffer", destination="ddr", size_bytes=size_bytes
    )


def fetch(
    label: str, size_bytes: int, after: tuple[int, ...] = (), allocates: tuple[int, ...] = ()
) -> Transfer:
    return Transfer(
        unit="path_load", label=label, source="global_buffer", destination="local_buffer",
        size_bytes=size_bytes, after=after, allocates=allocates,
    )  # fmt: skip


def add(
    label: str, time_ps: int, after: tuple[int, ...] = (), frees: tuple[int, ...] = (), local_bytes: int = 0
) -> VectorCompute:
    return VectorCompute(
        unit="vector", label=label, dtype="fp16", simple=LANES * time_ps, local_bytes=local_bytes,
        after=after, frees=frees,
    )  # fmt: skip


def product(label: str, rows: int, columns: int, depth: int, count: int = 1) -> MatrixCompute:
    return MatrixCompute(
        unit="matrix", label=label, dtype="fp16", rows=rows, columns=columns, depth=depth, count=count
    )
