"""Simulation runs in compiled code (``handler.c``), where that is built and supports the program.

A program and a machine become plain numbers here: works, demands, queues, ports, the space of buffers. The compiled
handler leaves dispatched work, deadlocks and mistakes to Python.
"""

from collections.abc import Mapping, Sequence

from dsascape.hw_models.in_c import is_built, may_use
from dsascape.hw_models.simulation.clock import run_instants
from dsascape.hw_models.simulation.columns import Column
from dsascape.hw_models.simulation.demands import Demand, Demands, PortBuffer
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.instructions import ProgramError, base_name
from dsascape.hw_models.simulation.machine import Machine, SimulationError
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.running import SPACE
from dsascape.hw_models.simulation.trace import Trace

if is_built("dsascape.hw_models.in_c.handler"):
    from dsascape.hw_models.in_c.handler import Handler, spaces_asked


def is_compiled() -> bool:
    """Return whether the compiled handler is built and enabled."""
    return may_use("dsascape.hw_models.in_c.handler")


def compiled_run(program: Program, machine: Machine, demands: Demands) -> FinishedRun | None:
    """Return the run of ``program`` on ``machine``, given its ``demands``; None if Python has to run it."""
    table = program.instructions
    if not is_compiled() or any(work.blocks for work in table.works):
        return None
    try:
        return _EncodedRun(program, demands).run(machine)
    except (ProgramError, SimulationError, ArithmeticError):  # Python finds it again, and reports where
        return None


class _EncodedRun:
    """Encoding of a program for the compiled handler: names become numbers."""

    def __init__(self, program: Program, demands: Demands) -> None:
        self._program = program
        self._demands = demands
        table = program.instructions
        self._used = dict.fromkeys(sorted(set(table.work_of)))
        self._bound = {number: demands.of(number) for number in self._used}
        """Demands of each work that an instruction does."""
        self._units = list(dict.fromkeys([work.unit for work in table.works]))
        self._kinds = list(dict.fromkeys([base_name(unit) for unit in self._units]))
        limits = [part.limit for bound in self._bound.values() for part in bound.parts]
        self._limits = sorted({*demands.names, *limits})

    def run(self, machine: Machine) -> FinishedRun | None:
        """Return the run; None if it deadlocks."""
        table, demands = self._program.instructions, self._demands
        works, parts = self._works()
        spaces, space_of = self._spaces()
        limits = {name: number for number, name in enumerate(self._limits)}
        ports = zip(demands.bytes_per_ps, demands.capacities_bytes, demands.names, strict=True)
        handler = Handler(
            work_of=table.work_of, after=table.after.pair, allocates=table.allocates.pair, frees=table.frees.pair,
            works=works,
            demands=tuple([_numbers(part, limits) for part in parts]), queues=self._queues(machine),
            ports=tuple([(rate, capacity, limits[name]) for rate, capacity, name in ports]), spaces=spaces,
            space_of=space_of, kinds=len(self._kinds), limits=len(limits),
        )  # fmt: skip
        run_instants(handler.happen)
        return None if handler.unfinished else self._finished(handler)

    def _works(self) -> tuple[tuple[tuple[int, ...], ...], list[Demand]]:
        """Return per work: queue, kind of unit, members, start-up, index and number of its demands; and all demands."""
        place = {unit: number for number, unit in enumerate(self._units)}
        kind = {unit: self._kinds.index(base_name(unit)) for unit in self._units}
        works, parts = [], list[Demand]()
        for number, work in enumerate(self._program.instructions.works):
            bound = self._bound.get(number)
            own = bound.parts if bound is not None else ()
            members, startup_ps = (bound.members, bound.startup_ps) if bound is not None else (0, 0)
            works.append((place[work.unit], kind[work.unit], members, startup_ps, len(parts), len(own)))
            parts += own
        return tuple(works), parts

    def _queues(self, machine: Machine) -> tuple[tuple[int, int, int], ...]:
        """Return per queue: kind of unit, servers, instructions in flight per server."""
        units = [(self._kinds.index(base_name(name)), machine.units[base_name(name)]) for name in self._units]
        return tuple([(kind, unit.servers, unit.in_flight) for kind, unit in units])

    def _spaces(self) -> tuple[tuple[tuple[PortBuffer, ...], ...], Column]:
        """Return what buffers that differ take when works that differ allocate them, and which of that each takes."""
        table, buffers, demands = self._program.instructions, self._program.buffers, self._demands
        requests, space_of = spaces_asked(table.allocates.pair, table.work_of, buffers.which)
        return tuple([tuple(demands.space(buffers.distinct[buffer], work)) for buffer, work in requests]), space_of

    def _finished(self, handler: "Handler") -> FinishedRun:
        """Return the handler's results, with names in place of numbers."""
        program, names = self._program, self._limits
        issued_ps, start_ps, end_ps, startup_ps, released_by, limits = handler.columns()
        memories = handler.memories()
        busy, waited = handler.units()
        trace = Trace(
            instructions=program.instructions,
            issued_ps=issued_ps,
            start_ps=start_ps,
            end_ps=end_ps,
            released_by=released_by,
            limits=[names[number] for number in limits],
            startup_ps=startup_ps,
            levels={name: program.units[name] for name in self._units},
            members={name: program.multiplicity(name) for name in self._units},
            occupancy_bytes={
                name: changes for name, (*_, changes) in zip(self._demands.names, memories, strict=True) if changes
            },
        )
        return FinishedRun(
            trace=trace, busy_ps=self._busy_ps(busy), waited_ps=self._waited_ps(waited), ports=self._demands.names,
            moved_bytes=[moved_bytes for moved_bytes, *_ in memories],
            peak_bytes=[peak_bytes for _, peak_bytes, *_ in memories],
            was_short_of_space=any(was_short for *_, was_short, _ in memories), events=handler.events,
        )  # fmt: skip

    def _busy_ps(self, busy: Sequence[tuple[int, int]]) -> Mapping[str, int]:
        by_kind: dict[str, int] = {}
        for kind, busy_ps in busy:
            by_kind[self._kinds[kind]] = by_kind.get(self._kinds[kind], 0) + busy_ps
        return by_kind

    def _waited_ps(self, waited: Sequence[tuple[int, int, int]]) -> Mapping[str, Mapping[str, int]]:
        by_kind: dict[str, dict[str, int]] = {kind: {} for kind in self._kinds}
        for kind, what, waited_ps in waited:
            by_kind[self._kinds[kind]][[*self._kinds, SPACE][what]] = waited_ps
        return by_kind


def _numbers(part: Demand, limits: Mapping[str, int]) -> tuple[object, ...]:
    """Return a demand as the tuple that the handler expects."""
    return (
        part.members, part.startup_ps, part.duration_ps, part.whole_ps, part.bytes_per_ps, limits[part.limit],
        part.moves, part.loads, part.port_bytes_per_ps, part.traffic_bytes,
    )  # fmt: skip
