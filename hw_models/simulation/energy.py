"""Energy of a run by component: arithmetic, instructions, registers, each memory, power times makespan.

Power that does not depend on what is computed is that of clocks of cores at work, and static power by part.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dsascape.hw_models.simulation.instructions import Compute, Launch, Transfer, Work, base_name
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.simulation.program import Program

INSTRUCTIONS = "instructions"
"""Name of the component for the energy of executing instructions."""
REGISTERS = "registers"
"""Name of the component for reading and writing vector registers, and registers of matrix arrays."""
CLOCK = "clock"
"""Name of the component for clocks of cores at work."""
STATIC_CORES, STATIC_INTERFACE = "static_cores", "static_interface"
"""Names of the components for static power of cores, and of the interface to off-chip memory."""
STATIC = "static"
"""Name of the component for static power of no named part."""
BACKGROUND = CLOCK, STATIC_CORES, STATIC_INTERFACE, STATIC
"""Names of the components that are power times makespan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyModel:
    """Energy per operation, instruction and byte of a machine, in picojoules."""

    machine: str
    mac_pj: Mapping[str, float]
    """Energy of one multiply-accumulate, by dtype."""
    simple_pj: float
    """Energy of one simple operation (addition, comparison)."""
    special_pj: float
    """Energy of one special operation (division, root, exponential)."""
    byte_pj: Mapping[str, float]
    """Energy of one byte read from or written to a memory, by memory; of a link, once per receiver."""
    static_power_w: float
    """Static power of all parts, drawn over the whole makespan."""
    static_parts_w: Mapping[str, float] = field(default_factory=dict)
    """Parts of ``static_power_w`` that are components of their own; the rest is `STATIC`."""
    clock_w: tuple[float, ...] = ()
    """Power of the clocks of cores at work, drawn over the whole makespan, by their number less one. Threads that wait
    for others at the end of a parallel loop spin, as in most thread pools, and are at work."""
    register_class_pj: Mapping[str, float] = field(default_factory=dict)
    """Energy of the vector registers that one instruction reads and writes, by class (`Issued.by_class`)."""
    register_mac_pj: Mapping[str, float] = field(default_factory=dict)
    """Energy of an array's registers for one multiply-accumulate, by dtype."""
    link: str = "links"
    """Name of the component for the energy of bytes on links."""
    link_pj: Mapping[str, float] = field(default_factory=dict)
    """Energy of one byte that a unit moves, once per receiver, by unit; 0 for a unit that is not named."""
    instruction_pj: float = 0.0
    """Energy of executing one instruction besides its arithmetic, of any class: fetch, decode, registers, control. A
    payload without instruction counts has none."""


def energy_pj(program: Program, model: EnergyModel, makespan_ps: int) -> dict[str, float]:
    """Return picojoules by component of the machine.

    Components are ``macs``, ``vector`` (other operations), ``instructions``, ``registers``, each memory, links,
    ``clock``, static power by named part, and the rest of it, ``static``. Instructions, registers, links, clocks and
    named parts are components only if the model gives them energy. Sums are rounded once (``fsum``), so that equal
    programs have equal energy to the last digit, in whatever order their works are numbered.
    Raises ``HardwareError`` where the model has no energy for a dtype that the program computes.
    """
    links = (model.link,) if model.link_pj else ()
    issuing = (INSTRUCTIONS,) if model.instruction_pj else ()
    holding = (REGISTERS,) if model.register_class_pj or model.register_mac_pj else ()
    background_w = _background_w(program, model)
    components = ("macs", "vector", *issuing, *holding, *model.byte_pj, *links, *background_w)
    spent: dict[str, list[float]] = {name: [] for name in components}
    table = program.instructions
    for number, count in table.counts().items():
        work = table.works[number]
        for component, energy in _spent_pj(work, count * program.executions(work), model):
            spent[component].append(energy)
    for component, watts in background_w.items():
        spent[component].append(watts * makespan_ps)
    return {name: math.fsum(parts) for name, parts in spent.items()}


def background_w(program: Program, model: EnergyModel) -> float:
    """Return the power in watts that is drawn over the whole makespan: static, and clocks of cores at work."""
    return math.fsum(_background_w(program, model).values())


def _background_w(program: Program, model: EnergyModel) -> dict[str, float]:
    """Return the power drawn over the whole makespan by component."""
    by_part = dict(model.static_parts_w)
    by_part[STATIC] = model.static_power_w - math.fsum(by_part.values())
    if not model.clock_w:
        return by_part
    launches = [work.payload for work in program.instructions.works if isinstance(work.payload, Launch)]
    at_work = max([launch.threads for launch in launches], default=len(model.clock_w))
    return {CLOCK: model.clock_w[min(at_work, len(model.clock_w)) - 1]} | by_part


def energy_of_works_pj(program: Program, model: EnergyModel) -> list[float]:
    """Return the picojoules of one instruction of each work of the program, without power drawn over the makespan.

    Raises ``HardwareError`` as `energy_pj` does.
    """
    table = program.instructions
    return [
        math.fsum(energy for _, energy in _spent_pj(work, program.executions(work), model)) for work in table.works
    ]


def _spent_pj(work: Work, times: int, model: EnergyModel) -> Iterator[tuple[str, float]]:
    """Yield (component, picojoules) of a work that is executed so many times."""
    payload = work.payload
    if isinstance(payload, Transfer):
        source, destination = base_name(payload.source), base_name(payload.destination)
        yield source, times * payload.size_bytes * model.byte_pj[source]
        received = times * payload.size_bytes * payload.fan_out
        yield destination, received * model.byte_pj[destination]
        if payload.link:
            yield base_name(payload.link), received * model.byte_pj[base_name(payload.link)]
        if base_name(work.unit) in model.link_pj:
            yield model.link, received * model.link_pj[base_name(work.unit)]
    elif isinstance(payload, Compute):
        if payload.macs:
            dtype = (payload.product or payload.dtype).partition(" x ")[0]  # of a pair, the wide one's
            if dtype not in model.mac_pj:
                raise HardwareError(f"{model.machine}: energy.mac has {', '.join(model.mac_pj)}; needs {dtype} too")
            yield "macs", times * payload.macs * model.mac_pj[dtype]
            if model.register_mac_pj:
                yield REGISTERS, times * payload.macs * model.register_mac_pj.get(dtype, 0.0)
        yield "vector", times * payload.simple * model.simple_pj
        yield "vector", times * payload.special * model.special_pj
        if model.instruction_pj:
            yield INSTRUCTIONS, times * payload.instructions * model.instruction_pj
        for name, each_pj in model.register_class_pj.items():
            yield REGISTERS, times * payload.issued_of(name) * each_pj
        for memory, size_bytes in payload.traffic:
            name = base_name(memory)
            yield name, times * size_bytes * model.byte_pj[name]
