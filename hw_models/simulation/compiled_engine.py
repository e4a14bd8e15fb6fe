"""Compiled engine: event handlers in C (``handler.c``), called by SimPy.

A program and its demands become plain numbers here: works, demands, queues, ports, the space of buffers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.in_c import is_built, why_not
from dsascape.hw_models.simulation.clock import run_instants
from dsascape.hw_models.simulation.columns import Column
from dsascape.hw_models.simulation.demands import Demand, Demands, PortBuffer
from dsascape.hw_models.simulation.engine import Engine, EngineLimitError
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.instructions import ProgramError, base_name
from dsascape.hw_models.simulation.machine import SimulationError
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.running import SPACE
from dsascape.hw_models.simulation.trace import Trace
from dsascape.wording import count

if is_built("dsascape.hw_models.in_c.handler"):
    from dsascape.hw_models.in_c.handler import Handler, spaces_asked


@dataclass(frozen=True)
class CompiledEngine:
    """Engine in C. It runs bound work only; mistakes and deadlocks are reported by the reference engine."""

    reference: Engine
    name: str = "compiled"

    def absence(self) -> str:
        """Return why the compiled handler cannot be used; empty if it can."""
        return why_not("dsascape.hw_models.in_c.handler")

    def refusal(self, program: Program) -> str:
        """Return that the engine runs no dispatched work, if ``program`` has any; otherwise an empty text."""
        return "it runs no dispatched work" if any(work.blocks for work in program.instructions.works) else ""

    def run(self, program: Program, demands: Demands) -> FinishedRun:
        """Return the run of ``program``; raise as ``Engine.run`` does."""
        try:
            return _EncodedRun(program, demands).run(self.name)
        except (ProgramError, SimulationError):
            self.reference.run(program, demands)  # fails as well, and says where
            raise
        except ArithmeticError as error:
            raise EngineLimitError(str(error)) from error


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

    def run(self, engine: str) -> FinishedRun:
        """Return the run, by the engine of that name; raise ``SimulationError`` for a deadlock."""
        try:
            handler = self._handler()
            run_instants(handler.happen)
        except RuntimeError as error:
            raise ProgramError(str(error)) from error
        if handler.unfinished:
            raise SimulationError(f"{count(handler.unfinished, 'instruction')} can never start")
        return self._finished(handler, engine)

    def _handler(self) -> "Handler":
        """Return the compiled handler at the start of the run."""
        table, demands = self._program.instructions, self._demands
        works, parts = self._works()
        spaces, space_of = self._spaces()
        limits = {name: number for number, name in enumerate(self._limits)}
        ports = zip(demands.bytes_per_ps, demands.capacities_bytes, demands.names, strict=True)
        return Handler(
            work_of=table.work_of, after=table.after.pair, allocates=table.allocates.pair, frees=table.frees.pair,
            works=works,
            demands=tuple([_numbers(part, limits) for part in parts]), queues=self._queues(),
            ports=tuple([(rate, capacity, limits[name]) for rate, capacity, name in ports]), spaces=spaces,
            space_of=space_of, kinds=len(self._kinds), limits=len(limits),
        )  # fmt: skip

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

    def _queues(self) -> tuple[tuple[int, int, int], ...]:
        """Return per queue: kind of unit, servers, instructions in flight per server."""
        machine = self._demands.machine
        units = [(self._kinds.index(base_name(name)), machine.units[base_name(name)]) for name in self._units]
        return tuple([(kind, unit.servers, unit.in_flight) for kind, unit in units])

    def _spaces(self) -> tuple[tuple[tuple[PortBuffer, ...], ...], Column]:
        """Return what buffers that differ take when works that differ allocate them, and which of that each takes."""
        table, buffers, demands = self._program.instructions, self._program.buffers, self._demands
        requests, space_of = spaces_asked(table.allocates.pair, table.work_of, buffers.which)
        return tuple([tuple(demands.space(buffers.distinct[buffer], work)) for buffer, work in requests]), space_of

    def _finished(self, handler: "Handler", engine: str) -> FinishedRun:
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
            engine=engine, trace=trace, busy_ps=self._busy_ps(busy), waited_ps=self._waited_ps(waited),
            ports=self._demands.names,
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
