"""Energy of a run by component: arithmetic, each memory, static power over the makespan."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dsascape.hw_models.simulation.instructions import Compute, Transfer, base_name
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.simulation.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyModel:
    """Picojoules of what a machine does."""

    machine: str
    mac_pj: Mapping[str, float]
    """Of one multiply-accumulate, by dtype."""
    simple_pj: float
    """Of one simple operation."""
    special_pj: float
    byte_pj: Mapping[str, float]
    """Of one byte read from or written to each memory."""
    static_power_w: float
    """Drawn for as long as the machine runs."""
    link: str = "links"
    """What the energy of bytes under way is called."""
    link_pj: Mapping[str, float] = field(default_factory=dict)
    """Of one byte that a unit moves, once per receiver, by unit; nothing where a unit is not named."""


def energy_pj(program: Program, model: EnergyModel, makespan_ps: int) -> dict[str, float]:
    """Return picojoules by component: ``macs``, ``vector`` (other operations), each memory, links, ``static``.

    Links are named if they take any. Sums are rounded once, so that equal programs take as much to the last digit, in
    whatever order their works are numbered.
    Raises ``HardwareError`` where the model has no energy for a dtype that the program computes.
    """
    links = (model.link,) if model.link_pj else ()
    spent: dict[str, list[float]] = {name: [] for name in ("macs", "vector", *model.byte_pj, *links, "static")}
    table = program.instructions
    for number, count in table.counts().items():
        work = table.works[number]
        times, payload = count * program.executions(work), work.payload
        if isinstance(payload, Transfer):
            source, destination = base_name(payload.source), base_name(payload.destination)
            spent[source].append(times * payload.size_bytes * model.byte_pj[source])
            received = times * payload.size_bytes * payload.fan_out
            spent[destination].append(received * model.byte_pj[destination])
            if base_name(work.unit) in model.link_pj:
                spent[model.link].append(received * model.link_pj[base_name(work.unit)])
        elif isinstance(payload, Compute):
            if payload.macs:
                if payload.dtype not in model.mac_pj:
                    raise HardwareError(
                        f"{model.machine}: energy.mac has {', '.join(model.mac_pj)}, needs {payload.dtype}"
                    )
                spent["macs"].append(times * payload.macs * model.mac_pj[payload.dtype])
            spent["vector"].append(times * payload.simple * model.simple_pj)
            spent["vector"].append(times * payload.special * model.special_pj)
            for memory, size_bytes in payload.traffic:
                name = base_name(memory)
                spent[name].append(times * size_bytes * model.byte_pj[name])
    spent["static"].append(model.static_power_w * makespan_ps)
    return {name: math.fsum(parts) for name, parts in spent.items()}
