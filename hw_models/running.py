"""The state of one simulation: what has started and ended, who waits for what, the memories' space and bandwidth."""

from collections.abc import Callable, Sequence

from hw_models.bandwidth import Flow, SharedBandwidth
from hw_models.clock import Action, Clock
from hw_models.demands import Bound, Cohort, Demand, Demands
from hw_models.instructions import ProgramError, base_name
from hw_models.machine import Machine
from hw_models.program import Program
from hw_models.quantities import format_bytes
from hw_models.space import SharedSpace, Space
from hw_models.trace import STARTED_BY_NOBODY, Trace

SPACE = "space"
"""What a unit waits for that waits for space in a memory."""
_MOST_NAMED = 3
_MOST_LINES = 6


class SimulationError(ValueError):
    """The machine cannot run the program: something does not fit, or everything waits for everything."""


class Running:
    """One simulation of one program on one machine; units note here what they do."""

    def __init__(self, program: Program, machine: Machine, clock: Clock) -> None:
        self.program = program
        self.machine = machine
        self.clock = clock
        self.demands = Demands(program, machine)
        names = self.demands.names
        self._bandwidth = SharedBandwidth(clock, self.demands.bytes_per_ps, names)
        self.space = SharedSpace(clock, list(map(Space, names, self.demands.capacities_bytes)))
        self.table = table = program.instructions
        self._bounds: list[Bound | None] = [None] * len(table.works)
        """By work: what it asks for, as far as it has been found out."""
        self._units = [base_name(work.unit) for work in table.works]
        count = self.unfinished = len(table)
        self._pending = list(map(len, table.after))
        self._followers: list[list[int]] = [[] for _ in range(count)]
        for position, after in enumerate(table.after):
            for before in after:
                self._followers[before].append(position)
        self._last_dependency = [STARTED_BY_NOBODY] * count
        self._blocked: dict[int, Action] = {}
        self._holders = [0] * len(program.buffers)
        self._allocators = [STARTED_BY_NOBODY] * len(program.buffers)
        for frees in table.frees:
            for buffer in frees:
                self._holders[buffer] += 1
        for position, allocates in enumerate(table.allocates):
            for buffer in allocates:
                self._allocators[buffer] = position
        self._issued_ps, self._start_ps, self._end_ps = [-1] * count, [-1] * count, [-1] * count
        self._released_by = [STARTED_BY_NOBODY] * count
        self._limits, self._startup_ps = [""] * count, [0] * count
        self.busy_ps: dict[str, int] = {}
        self.waited_ps: dict[str, dict[str, int]] = {}

    def ready(self, position: int, go_on: Action) -> bool:
        """Return whether all that an instruction waits for has ended; if not, ``go_on`` is called when it has."""
        if not self._pending[position]:
            return True
        self._blocked[position] = go_on
        return False

    def released_by(self, position: int) -> int:
        """Return whose end an instruction waited for last."""
        return self._last_dependency[position]

    def unit(self, position: int) -> str:
        """Return the kind of unit that an instruction is for."""
        return self._units[self.table.work_of[position]]

    @property
    def traffic_bytes(self) -> Sequence[float]:
        """By port: what has crossed it."""
        return self._bandwidth.moved_bytes

    def asked(self, position: int) -> Bound:
        """Return what the bound work at ``position`` asks for."""
        number = self.table.work_of[position]
        known = self._bounds[number]
        if known is None:
            try:
                known = self._bounds[number] = self.demands.of(number)
            except ProgramError as error:
                raise ProgramError(f"{self.table.labels[position]}: {error}") from error
        return known

    def handed(self, position: int, cohort: Cohort) -> Demand:
        """Return what ``cohort`` asks for while it does its blocks of the dispatched work at ``position``."""
        try:
            return self.demands.of_cohort(self.table.work_of[position], cohort)
        except ProgramError as error:
            raise ProgramError(f"{self.table.labels[position]}: {error}") from error

    def note_wait(self, unit: str, what: str, waited_ps: int) -> None:
        """Note that all members of ``unit`` together waited for another unit, or for space."""
        waited = self.waited_ps[unit]
        waited[what] = waited.get(what, 0) + waited_ps

    def ask_space(self, position: int, granted: Callable[[int], object]) -> None:
        """Call ``granted`` when all buffers of an instruction have their space; raise what can never be granted."""
        wishes, demands, number = [], self.demands, self.table.work_of[position]
        for buffer in self.table.allocates[position]:
            wanted = self.program.buffers[buffer]
            for port, size_bytes in demands.space(wanted, number):
                if size_bytes > demands.capacities_bytes[port]:
                    raise SimulationError(
                        f"buffer {wanted.label!r} needs {format_bytes(size_bytes)}, a"
                        f" {base_name(demands.names[port])} holds {format_bytes(demands.capacities_bytes[port])}"
                    )
                wishes.append((buffer, port, size_bytes))
        self.space.ask(position, wishes, granted)

    def issue(self, position: int) -> None:
        """Note that an instruction has its inputs and its buffers now."""
        self._issued_ps[position] = self.clock.now_ps

    def start(self, position: int, cause: int, startup_ps: int) -> None:
        """Note that an instruction starts now because the one at ``cause`` has ended."""
        now_ps = self._start_ps[position] = self.clock.now_ps
        if self._issued_ps[position] < 0:
            self._issued_ps[position] = now_ps
        self._released_by[position] = cause
        self._startup_ps[position] = startup_ps

    def since_start_ps(self, position: int) -> int:
        """Return how long an instruction has been under way."""
        return self.clock.now_ps - self._start_ps[position]

    def flow(self, demand: Demand, done: Callable[[str], object]) -> None:
        """Run what comes after a start-up through the memories; call ``done`` with what set its pace."""
        flow = Flow(
            demand.duration_ps, demand.bytes_per_ps, demand.loads, demand.limit, moved=demand.traffic_bytes,
            kind=demand.number,
        )  # fmt: skip
        self._bandwidth.start(flow, done)

    def finish(self, position: int, limit: str) -> None:
        """Note the end of an instruction, tell who waited for it, and return space that nobody needs any more."""
        self._end_ps[position] = self.clock.now_ps
        self._limits[position] = limit
        self.unfinished -= 1
        pending, last_dependency, blocked = self._pending, self._last_dependency, self._blocked
        for follower in self._followers[position]:
            left = pending[follower] = pending[follower] - 1
            last_dependency[follower] = position
            if not left and follower in blocked:
                self.clock.after(0, blocked.pop(follower))
        holders = self._holders
        for buffer in self.table.frees[position]:
            left = holders[buffer] = holders[buffer] - 1
            if not left:
                self._give_back(buffer, position)

    def _give_back(self, buffer: int, position: int) -> None:
        if self._issued_ps[self._allocators[buffer]] < 0:
            label, name = self.table.labels[position], self.program.buffers[buffer].label
            raise ProgramError(f"{label} frees buffer {name!r} before it has its space; let it wait for that")
        self.space.give_back(buffer, position)

    def trace(self) -> Trace:
        """Return what the finished run was like."""
        program = self.program
        used = dict.fromkeys([work.unit for work in self.table.works])
        return Trace(
            instructions=self.table,
            issued_ps=self._issued_ps,
            start_ps=self._start_ps,
            end_ps=self._end_ps,
            released_by=self._released_by,
            limits=self._limits,
            startup_ps=self._startup_ps,
            levels={name: program.units[name] for name in used},
            members={name: program.multiplicity(name) for name in used},
            occupancy_bytes={space.name: space.history for space in self.space.spaces if space.history},
        )

    def deadlock(self) -> str:
        """Return who waits for what: first those that wait for space, as the others wait for them."""
        table, lines = self.table, []
        for space in self.space.spaces:
            holders = [self._holder(buffer) for buffer in sorted(space.held_bytes)[:_MOST_NAMED]]
            beside = ", ".join(holders) or "nothing"
            free = format_bytes(space.capacity_bytes - space.used_bytes)
            for wish in space.waiting:
                who, wanted = table[wish.position], format_bytes(wish.size_bytes)
                lines.append(
                    f"{who.unit} waits with {who.label!r} for {wanted} of {space.name},"
                    f" where {free} is free beside {beside}"
                )
        lines += [self._blocked_line(position) for position in sorted(self._blocked)]
        more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        return "the machine can no longer move: " + "; ".join(lines[:_MOST_LINES] + more)

    def _blocked_line(self, position: int) -> str:
        instruction = self.table[position]
        missing = [repr(self.table.labels[b]) for b in instruction.after if self._end_ps[b] < 0]
        return f"{instruction.unit} waits with {instruction.label!r} for {', '.join(missing[:_MOST_NAMED])}"

    def _holder(self, buffer: int) -> str:
        """Return the label of a buffer, and what has to end before its space returns."""
        users = [
            repr(self.table.labels[position])
            for position, frees in enumerate(self.table.frees)
            if buffer in frees and self._end_ps[position] < 0
        ]
        until = f"until {', '.join(users[:_MOST_NAMED])} ended" if users else "for good"
        return f"{self.program.buffers[buffer].label!r} (held {until})"
