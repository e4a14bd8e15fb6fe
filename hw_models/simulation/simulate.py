"""Discrete-event simulation: units execute the instructions of their queues, memories give space and bandwidth.

Bound work goes to servers, one per queue that a unit serves at a time, or to a pipelined server where start-ups
overlap; dispatched work to one block scheduler per unit. Members that do the same are one actor with a multiplicity:
their flows count that many times on a shared memory. This is exact as long as they stay in step. Equivalent members
that take part in the same bound instructions do, unless they compete for the last space of one memory; members that
were handed blocks at the same moment do, because each holds blocks of one instruction only. Other members of a unit
synchronise at the end of every bound instruction: faster members wait for the slowest, members that take no part wait
for those that do. A unit that takes blocks or has members of several kinds is assumed to be the only user of its
members' private memories.
"""

from collections.abc import Mapping

from dsascape.hw_models.simulation.demands import Demands
from dsascape.hw_models.simulation.energy import EnergyModel, energy_pj
from dsascape.hw_models.simulation.engine import Engine
from dsascape.hw_models.simulation.engines import run_by_fastest
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.simulation.machine import Machine, SimulationError, check_program
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.trace import SimulationResult
from dsascape.hw_models.text.quantities import PS_PER_S

__all__ = ["SimulationError", "simulate"]


def simulate(
    program: Program, machine: Machine, energy: EnergyModel | None, engine: Engine | None = None
) -> SimulationResult:
    """Simulate ``program`` on ``machine`` and return its figures (picoseconds, bytes, picojoules).

    ``energy``: None leaves all energy out. ``engine``: one of `simulation.engines.ENGINES`; by default the fastest that
    is there and supports the program.
    Raises ``ProgramError`` for a program that names what the machine lacks, ``HardwareError`` for a dtype
    that its units do not compute, ``SimulationError`` for buffers that cannot fit and for deadlock.
    """
    check_program(program, machine)
    with collector_paused():
        demands = Demands(program, machine)
        run = run_by_fastest(program, demands) if engine is None else engine.run(program, demands)
    moved_bytes = [demands.moved_bytes(number) for number in range(len(program.instructions.works))]
    in_use = {level.name: _share_in_use(program, machine, level.name) for level in machine.levels}
    spent = {} if energy is None else energy_pj(program, energy, run.trace.makespan_ps)
    return _result(machine, run, spent, moved_bytes, in_use)


def _share_in_use(program: Program, machine: Machine, level: str) -> float:
    """Return the share of the members of ``level``, in the whole machine, that ``program`` runs on."""
    share = 1.0
    for one in machine.levels:
        share *= program.extent.get(one.name, one.count) / one.count
        if one.name == level:
            break
    return share


def _result(
    machine: Machine, run: FinishedRun, energy: dict[str, float], moved_bytes: list[dict[str, float]],
    in_use: Mapping[str, float],
) -> SimulationResult:  # fmt: skip
    """Return the result of a finished run, its counters summed by kind of unit and memory.

    ``in_use``: share of the members in use, by level.
    """
    trace, busy_ps = run.trace, run.busy_ps
    makespan = trace.makespan_ps
    traffic: dict[str, float] = dict.fromkeys(machine.memories, 0.0)
    peaks: dict[str, int] = dict.fromkeys(machine.memories, 0)
    for port, crossed_bytes, peak_bytes in zip(run.ports, run.moved_bytes, run.peak_bytes, strict=True):
        kind = base_name(port)
        traffic[kind] += crossed_bytes
        peaks[kind] = max(peaks[kind], peak_bytes)
    utilisation = {}
    for name, unit in machine.units.items():
        members = machine.count(unit.level) * unit.servers
        utilisation[name] = busy_ps.get(name, 0) / (makespan * members) if makespan else 0.0
    for name, memory in machine.memories.items():
        port_bytes = memory.bandwidth_bytes_per_s * machine.count(memory.level) * makespan / PS_PER_S
        utilisation[name] = min(traffic[name] / port_bytes, 1.0) if makespan else 0.0
    levels = {name: unit.level for name, unit in machine.units.items()}
    levels |= {name: memory.level for name, memory in machine.memories.items()}
    at_work = {name: min(share / in_use.get(levels[name], 1.0), 1.0) for name, share in utilisation.items()}
    return SimulationResult(
        makespan_ps=makespan,
        busy_ps=busy_ps,
        utilisation=utilisation,
        traffic_bytes={name: round(size) for name, size in traffic.items()},
        peak_occupancy_bytes=peaks,
        waited_ps=run.waited_ps,
        energy_pj=energy,
        simulated_events=run.events,
        engine=run.engine,
        trace=trace,
        was_short_of_space=run.was_short_of_space,
        moved_bytes=moved_bytes,
        utilisation_at_work=at_work,
    )
