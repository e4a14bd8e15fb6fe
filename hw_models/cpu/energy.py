"""Energy of a CPU: what is stated in its file, or derived from its cores (`hw_models.common.core_energy`)."""

from collections.abc import Callable
from dataclasses import replace

from dsascape.hw_models.common.core_energy import Order, instruction_pj, register_class_pj, register_pj_per_byte
from dsascape.hw_models.common.interface import interface_w
from dsascape.hw_models.cpu.machine import DRAM
from dsascape.hw_models.cpu.spec import Cpu
from dsascape.hw_models.simulation.energy import STATIC_CORES, STATIC_INTERFACE, EnergyModel


def cpu_energy(spec: Cpu) -> EnergyModel:
    """Return the energy model: picojoules per operation, instruction and byte, and power by part."""
    energy, bandwidth = spec.energy, spec.dram.bandwidth_bytes_per_s
    model = energy.model(spec.name, DRAM, spec.sram_pj_per_byte, bandwidth, spec.core_count)
    stated = energy.instruction
    each_pj = _mean_by_order(spec, instruction_pj) if stated is None else stated
    register_pj = vector_register_pj(spec)
    parts_w = {
        STATIC_CORES: spec.core_count * energy.core_static_w,
        STATIC_INTERFACE: interface_w(bandwidth, energy.dram_static),
    }
    return replace(
        model,
        instruction_pj=each_pj * energy.estimate_share,
        clock_w=tuple([clock_w(spec, active) for active in range(1, spec.core_count + 1)]),
        register_class_pj=register_class_pj(register_pj) if register_pj else {},
        static_parts_w={name: watts for name, watts in parts_w.items() if watts},
    )


def clock_w(spec: Cpu, active: int) -> float:
    """Return watts of the cycles of the ``active`` fastest cores, at the clock that they have together."""
    watts, left = 0.0, active
    for core in spec.kinds:
        at_work = min(core.count, left)
        watts += at_work * core.cycle_pj(spec.energy.node_nm) * 1e-12 * spec.clock_hz(core, active)
        left -= at_work
    return watts


def vector_register_pj(spec: Cpu) -> float:
    """Return picojoules of reading or writing one vector register: as stated, or derived."""
    stated = spec.energy.vector_register
    return _mean_by_order(spec, register_pj_per_byte) * spec.simd.register_bytes if stated is None else stated


def _mean_by_order(spec: Cpu, derived: Callable[[Order, float], float]) -> float:
    """Return the mean over cores of an energy by order of issue and node, weighted by products per second."""
    rates = [(core.order, core.count * spec.products_per_s(core)) for core in spec.kinds]
    return sum([rate * derived(order, spec.energy.node_nm) for order, rate in rates]) / sum([rate for _, rate in rates])
