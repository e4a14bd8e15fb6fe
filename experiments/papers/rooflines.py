"""Rooflines of data sheets: what a network takes at least by the peak and the bandwidth that a machine's file states.

The simplest prediction that there is, beside which the page on accuracy puts ours: multiply-accumulates at the peak of
all cores at work, at their highest clock, or inputs, weights and results once at the peak bandwidth of memory,
whichever takes longer. No launches, caches, efficiencies or clocks that fall.
"""

from dsascape.hw_models import AnyHardware, ClusteredDsa, Cpu, Gpu
from dsascape.workloads.graph import Graph

_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}


def roofline_s(graph: Graph, machine: AnyHardware, dtype: str, threads: int | None = None) -> float:
    """Return the seconds of one run of ``graph``; of a CPU on its ``threads`` fastest cores, by default on all.

    All tensors that come from or go to memory count in ``dtype``, as do products, whatever the network has.
    """
    peak = _peak_of_cores(machine, dtype, threads) if isinstance(machine, Cpu) else machine.peak_macs_per_s(dtype)
    bandwidth = _off_chip_bytes_per_s(machine)
    moved = [
        tensor.elements for name, tensor in graph.tensors.items()
        if tensor.role != "activation" or name in graph.results
    ]  # fmt: skip
    return max(graph.operations.macs / peak, sum(moved) * _BYTES[dtype] / bandwidth)


def _off_chip_bytes_per_s(machine: AnyHardware) -> float:
    """Return the peak bandwidth of memory; raises ``TypeError`` for machines that are no CPU, GPU or DSA."""
    if isinstance(machine, ClusteredDsa):
        return machine.ddr.bandwidth_bytes_per_s
    if isinstance(machine, Cpu | Gpu):
        return machine.dram.bandwidth_bytes_per_s
    raise TypeError(f"{machine.name}: needs a CPU, a GPU or a DSA; has {machine.kind}")


def _peak_of_cores(machine: Cpu, dtype: str, threads: int | None) -> float:
    """Return multiply-accumulates per second of the fastest cores at their highest clock."""
    lanes = machine.simd.lanes_of(dtype) / machine.simd.instructions_of(dtype)
    at_work = machine.at_work(machine.core_count if threads is None else threads)
    return lanes * sum([core.pipes_of(dtype) * core.clock_hz * used for core, used in at_work])
