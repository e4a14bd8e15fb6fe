"""State of a simulation run: instructions started and ended, blocked workers, space and bandwidth of memories."""

from collections import Counter

from dsascape.hw_models.simulation.bandwidth import SharedBandwidth
from dsascape.hw_models.simulation.clock import Clock, EventHandler
from dsascape.hw_models.simulation.columns import column, times
from dsascape.hw_models.simulation.demands import Bound, Demand, Demands, MemberGroup
from dsascape.hw_models.simulation.finished import FinishedRun
from dsascape.hw_models.simulation.instructions import ProgramError, base_name
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.simulation.space import Requester, SharedSpace, Space
from dsascape.hw_models.simulation.trace import NO_CAUSE, Trace
from dsascape.hw_models.text.quantities import format_bytes

SPACE = "space"
"""Name in the figures of idle time for a wait for space in a memory."""
_MOST_NAMED = 3
_MOST_LINES = 6


class Running:
    """Simulation of one program on one machine; workers record starts and ends of instructions here."""

    def __init__(self, program: Program, clock: Clock, demands: Demands) -> None:
        self.program = program
        self.machine = demands.machine
        self.clock = clock
        self.demands = demands
        names = self.demands.names
        self.bandwidth = SharedBandwidth(clock, self.demands.bytes_per_ps, names)
        self.space = SharedSpace(clock, list(map(Space, names, self.demands.capacities_bytes)))
        self.table = table = program.instructions
        self._work_of, self._after, self._frees = table.work_of, tuple(table.after), tuple(table.frees)
        self.allocates, self._buffers = tuple(table.allocates), tuple(program.buffers)
        self.bound_demands = self._all_demands()
        """Demands per instruction; empty for dispatched work."""
        self._units = [base_name(work.unit) for work in table.works]
        count = self.unfinished = len(table)
        self._blocked: dict[int, list[tuple[int, int, EventHandler]]] = {}
        """Blocked successors by instruction: (successor, index of the dependency, worker)."""
        holders = Counter(table.frees.items)
        self._holders = [holders[buffer] for buffer in range(len(program.buffers))]
        """Per buffer, the number of instructions that have to end before its space is freed."""
        self._allocators = [NO_CAUSE] * len(program.buffers)
        """Per buffer, the instruction that has requested its space."""
        self._issued_ps, self.start_ps, self._end_ps = [-1] * count, [-1] * count, [-1] * count
        self._released_by = [NO_CAUSE] * count
        self._limits, self._startup_ps = [""] * count, [0] * count
        self.waited_ps: dict[str, dict[str, int]] = {}
        """Idle time per kind of unit, summed over members, by the kind of unit waited for or ``space``."""

    def _all_demands(self) -> list[Bound]:
        table, none = self.table, Bound((), 0, 0)
        demands = [none] * len(table.works)
        for number in dict.fromkeys(table.work_of):
            if table.works[number].blocks:
                continue
            try:
                demands[number] = self.demands.of(number)
            except ProgramError as error:
                raise ProgramError(f"{table.labels[table.work_of.index(number)]}: {error}") from error
        return [demands[number] for number in table.work_of]

    def ready(self, position: int, handler: EventHandler, ended: int = 0) -> bool:
        """Return whether all dependencies of an instruction have ended; the first ``ended`` are known to have.

        If not, ``handler`` is called when they have, with the position of the instruction that ended last.
        """
        after, end_ps = self._after[position], self._end_ps
        for place in range(ended, len(after)):
            before = after[place]
            if end_ps[before] < 0:
                self._blocked.setdefault(before, []).append((position, place, handler))
                return False
        return True

    def unit(self, position: int) -> str:
        """Return the kind of unit that executes an instruction."""
        return self._units[self._work_of[position]]

    def group_demand(self, position: int, group: MemberGroup) -> Demand:
        """Return the demand of ``group`` for its blocks of the dispatched instruction at ``position``."""
        try:
            return self.demands.of_group(self._work_of[position], group)
        except ProgramError as error:
            raise ProgramError(f"{self.table.labels[position]}: {error}") from error

    def request_space(self, position: int, requester: Requester) -> None:
        """Request space for all buffers of an instruction; raise ``SimulationError`` for one that can never fit."""
        number, buffers = self._work_of[position], self._buffers
        for buffer in self.allocates[position]:
            self._allocators[buffer] = position
            self.space.request(requester, position, buffer, self.demands.space(buffers[buffer], number))

    def issue(self, position: int) -> None:
        """Record that an instruction has its inputs and its buffers now."""
        self._issued_ps[position] = self.clock.now_ps

    def start(self, position: int, cause: int, startup_ps: int) -> None:
        """Record that an instruction starts now, released by the end of the one at ``cause``."""
        now_ps = self.start_ps[position] = self.clock.now_ps
        if self._issued_ps[position] < 0:
            self._issued_ps[position] = now_ps
        self._released_by[position] = cause
        self._startup_ps[position] = startup_ps

    def since_issue_ps(self, position: int) -> int:
        """Return the time in picoseconds since an instruction was issued."""
        return self.clock.now_ps - self._issued_ps[position]

    def finish(self, position: int, limit: str) -> None:
        """Record the end of an instruction, wake the workers that wait for it, and free buffers that it used last."""
        self._end_ps[position] = self.clock.now_ps
        self._limits[position] = limit
        self.unfinished -= 1
        if position in self._blocked:
            blocked = self._blocked.pop(position)
            if len(blocked) > 1:
                blocked.sort()
            for waiting, place, handler in blocked:
                if self.ready(waiting, handler, place + 1):
                    self.clock.after(0, handler, position)
        holders = self._holders
        for buffer in self._frees[position]:
            left = holders[buffer] = holders[buffer] - 1
            if not left:
                allocator = self._allocators[buffer]
                if allocator < 0 or self._issued_ps[allocator] < 0:
                    label, name = self.table.labels[position], self._buffers[buffer].label
                    raise ProgramError(f"{label} frees buffer {name!r} before it is allocated; add a dependency")
                self.space.release(buffer, position)

    def finished(self, engine: str, busy_ps: dict[str, int]) -> FinishedRun:
        """Return the trace and counters of the finished run of ``engine``; ``busy_ps`` is by kind of unit."""
        program, ports = self.program, self.bandwidth.ports
        used = dict.fromkeys([work.unit for work in self.table.works])
        trace = Trace(
            instructions=self.table,
            issued_ps=times(self._issued_ps),
            start_ps=times(self.start_ps),
            end_ps=times(self._end_ps),
            released_by=column(self._released_by),
            limits=self._limits,
            startup_ps=times(self._startup_ps),
            levels={name: program.units[name] for name in used},
            members={name: program.multiplicity(name) for name in used},
            occupancy_bytes={space.name: changes for space in self.space.spaces if (changes := space.changes())},
        )
        return FinishedRun(
            engine=engine,
            trace=trace,
            busy_ps=busy_ps,
            waited_ps=self.waited_ps,
            ports=self.demands.names,
            moved_bytes=[port.moved_bytes for port in ports],
            peak_bytes=[space.peak_bytes for space in self.space.spaces],
            was_short_of_space=any(space.was_short for space in self.space.spaces),
            events=self.clock.events,
        )

    def deadlock(self) -> str:
        """Return the message for a deadlock: first the waits for space, then the dependencies that follow from them."""
        table, lines = self.table, []
        for port, space in enumerate(self.space.spaces):
            holders = [self._holder(buffer) for buffer in self.space.holders(port)[:_MOST_NAMED]]
            holding = ", ".join(holders) or "no buffer"
            free = format_bytes(space.capacity_bytes - space.used_bytes)
            for position, _, size_bytes, _ in space.waiting:
                who, wanted = table[position], format_bytes(size_bytes)
                lines.append(
                    f"{who.unit} waits with {who.label!r} for {wanted} of {space.name},"
                    f" where {free} is free; held by {holding}"
                )
        blocked = [position for those in self._blocked.values() for position, _, _ in those]
        lines += [self._blocked_line(position) for position in sorted(blocked)]
        more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        return "deadlock: " + "; ".join(lines[:_MOST_LINES] + more)

    def _blocked_line(self, position: int) -> str:
        instruction = self.table[position]
        missing = [repr(self.table.labels[b]) for b in instruction.after if self._end_ps[b] < 0]
        return f"{instruction.unit} waits with {instruction.label!r} for {', '.join(missing[:_MOST_NAMED])}"

    def _holder(self, buffer: int) -> str:
        """Return the label of a buffer, and the instructions that have to end before its space is freed."""
        users = [
            repr(self.table.labels[position])
            for position, frees in enumerate(self.table.frees)
            if buffer in frees and self._end_ps[position] < 0
        ]
        until = f"until {', '.join(users[:_MOST_NAMED])} ends" if users else "never freed"
        return f"{self._buffers[buffer].label!r} ({until})"
