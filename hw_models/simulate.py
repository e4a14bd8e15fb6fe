"""The discrete-event simulation: units take their queues' instructions, memories give space and bandwidth.

One SimPy process per queue (and server of it). A process takes the queue's next instruction, waits for what
the instruction depends on, then for the space it allocates, pays the start-up, and runs as a flow through the
memories. Members that do the same are one process with a multiplicity: their flows weigh as many on a shared
memory. That is exact as long as they stay in step: unless they compete for the last space of one memory.
"""

from collections import deque
from collections.abc import Generator

import simpy

from hw_models.bandwidth import Flow, SharedBandwidth
from hw_models.clustered_dsa import ClusteredDsa
from hw_models.demands import Demand, Demands
from hw_models.energy import energy_pj
from hw_models.machine import Machine, check_program, dsa_machine
from hw_models.pause import collector_paused
from hw_models.program import AnyInstruction, Program, ProgramError, base_name
from hw_models.quantities import PS_PER_S, format_bytes
from hw_models.signals import Signal
from hw_models.space import SharedSpace, Space
from hw_models.trace import STARTED_BY_NOBODY, SimulationResult, Trace

SPACE = "space"
_MOST_NAMED = 3
_MOST_LINES = 6


class SimulationError(ValueError):
    """The machine cannot run the program: something does not fit, or everything waits for everything."""


class _Run:
    """One simulation of one program on one machine."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self._program = program
        self._machine = machine
        self._env = simpy.Environment()
        self._demands = Demands(program, machine)
        names = self._demands.names
        self._bandwidth = SharedBandwidth(self._env, self._demands.bytes_per_ps, names)
        sizes = self._demands.capacities_bytes
        self._space = SharedSpace(self._env, list(map(Space, names, sizes)))
        self._traffic = [0.0] * len(names)
        count = len(program.instructions)
        self._pending = [len(i.after) for i in program.instructions]
        self._followers: list[list[int]] = [[] for _ in range(count)]
        for position, instruction in enumerate(program.instructions):
            for before in instruction.after:
                self._followers[before].append(position)
        self._last_dependency = [STARTED_BY_NOBODY] * count
        self._blocked: dict[int, simpy.Event] = {}
        self._holders = [0] * len(program.buffers)
        self._allocators = [STARTED_BY_NOBODY] * len(program.buffers)
        for position, instruction in enumerate(program.instructions):
            for buffer in instruction.frees:
                self._holders[buffer] += 1
            for buffer in instruction.allocates:
                self._allocators[buffer] = position
        self._start_ps, self._end_ps = [-1] * count, [-1] * count
        self._released_by = [STARTED_BY_NOBODY] * count
        self._limits, self._startup_ps = [""] * count, [0] * count
        self._busy_ps: dict[str, int] = {}
        self._waited_ps: dict[str, dict[str, int]] = {}

    def run(self) -> Trace:
        queues: dict[str, deque[int]] = {}
        for position, instruction in enumerate(self._program.instructions):
            queues.setdefault(instruction.unit, deque()).append(position)
        processes = [
            self._env.process(self._unit(name, queue))
            for name, queue in queues.items()
            for _ in range(self._machine.units[base_name(name)].servers)
        ]
        try:
            self._env.run(until=self._env.all_of(processes))
        except RuntimeError as error:
            if "until" not in str(error):
                raise
            raise SimulationError(self._deadlock()) from None
        self._space.settle()
        return Trace(
            instructions=self._program.instructions,
            start_ps=self._start_ps,
            end_ps=self._end_ps,
            released_by=self._released_by,
            limits=self._limits,
            startup_ps=self._startup_ps,
            scopes={name: self._program.scopes[name] for name in queues},
            members={name: self._program.multiplicity(name) for name in queues},
            occupancy_bytes={space.name: space.history for space in self._space.spaces if space.history},
        )

    def _unit(self, name: str, queue: deque[int]) -> Generator[simpy.Event, int, None]:
        """Serve the queue of one unit, instruction by instruction."""
        env, instructions = self._env, self._program.instructions
        kind = base_name(name)
        waited = self._waited_ps.setdefault(kind, {})
        busy_ps, previous = 0, STARTED_BY_NOBODY
        while queue:
            position = queue.popleft()
            instruction = instructions[position]
            demand = self._demands.of(instruction)
            asked_ps = int(env.now)
            cause = previous
            if self._pending[position]:
                event = self._blocked[position] = env.event()
                yield event
                cause = self._last_dependency[position]
                who = base_name(instructions[cause].unit)
                waited[who] = waited.get(who, 0) + (int(env.now) - asked_ps) * demand.members
            if instruction.allocates:
                asked_ps = int(env.now)
                freed_by = yield self._space.ask(position, self._wishes(instruction))
                if env.now > asked_ps:
                    cause = freed_by
                    waited[SPACE] = waited.get(SPACE, 0) + (int(env.now) - asked_ps) * demand.members
            self._start_ps[position] = start_ps = int(env.now)
            self._released_by[position] = cause
            self._startup_ps[position] = demand.startup_ps
            if demand.startup_ps:
                yield env.timeout(demand.startup_ps)
            self._limits[position] = yield from self._flow(demand)
            self._end_ps[position] = end_ps = int(env.now)
            busy_ps += (end_ps - start_ps) * demand.members
            self._finish(position, instruction)
            previous = position
        self._busy_ps[kind] = self._busy_ps.get(kind, 0) + busy_ps

    def _flow(self, demand: Demand) -> Generator[simpy.Event, int, str]:
        """Run what comes after the start-up through the memories; return what set its pace."""
        if not demand.moves:
            return demand.limit
        flow = Flow(demand.duration_ps, demand.bytes_per_ps, demand.loads, demand.limit)
        finished = Signal(self._env)
        self._bandwidth.start(flow, finished.fire)
        yield finished
        for port, moved_bytes in demand.traffic_bytes:
            self._traffic[port] += moved_bytes
        return flow.longest_limit

    def _finish(self, position: int, instruction: AnyInstruction) -> None:
        """Tell who waited for the instruction, and return space that nobody needs any more."""
        for follower in self._followers[position]:
            self._pending[follower] -= 1
            self._last_dependency[follower] = position
            if not self._pending[follower] and follower in self._blocked:
                self._blocked.pop(follower).succeed()
        for buffer in instruction.frees:
            self._holders[buffer] -= 1
            if not self._holders[buffer]:
                self._give_back(buffer, position)

    def _give_back(self, buffer: int, position: int) -> None:
        if self._start_ps[self._allocators[buffer]] < 0:
            label, name = self._program.instructions[position].label, self._program.buffers[buffer].label
            raise ProgramError(f"{label} frees buffer {name!r} before it has its space; let it wait for that")
        self._space.give_back(buffer, position)

    def _wishes(self, instruction: AnyInstruction) -> list[tuple[int, int, int]]:
        """Return (buffer, port, bytes) of what an instruction allocates; raise what can never be granted."""
        wishes = []
        for buffer in instruction.allocates:
            wanted = self._program.buffers[buffer]
            for port, size_bytes in self._demands.space(wanted, instruction):
                capacity_bytes = self._demands.capacities_bytes[port]
                if size_bytes > capacity_bytes:
                    raise SimulationError(
                        f"buffer {wanted.label!r} needs {format_bytes(size_bytes)}, a"
                        f" {base_name(self._demands.names[port])} holds {format_bytes(capacity_bytes)}"
                    )
                wishes.append((buffer, port, size_bytes))
        return wishes

    def _deadlock(self) -> str:
        """Return who waits for what: first those that wait for space, as the others wait for them."""
        instructions = self._program.instructions
        lines = []
        for space in self._space.spaces:
            holders = [self._holder(buffer) for buffer in sorted(space.held_bytes)[:_MOST_NAMED]]
            beside = ", ".join(holders) or "nothing"
            free = format_bytes(space.capacity_bytes - space.used_bytes)
            for wish in space.waiting:
                who, wanted = instructions[wish.position], format_bytes(wish.size_bytes)
                lines.append(
                    f"{who.unit} waits with {who.label!r} for {wanted} of {space.name},"
                    f" where {free} is free beside {beside}"
                )
        for position in sorted(self._blocked):
            instruction = instructions[position]
            missing = [repr(instructions[b].label) for b in instruction.after if self._end_ps[b] < 0]
            lines.append(
                f"{instruction.unit} waits with {instruction.label!r} for {', '.join(missing[:_MOST_NAMED])}"
            )
        more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        return "the machine can no longer move: " + "; ".join(lines[:_MOST_LINES] + more)

    def _holder(self, buffer: int) -> str:
        """Return the label of a buffer, and what has to end before its space returns."""
        users = [
            repr(instruction.label)
            for position, instruction in enumerate(self._program.instructions)
            if buffer in instruction.frees and self._end_ps[position] < 0
        ]
        until = f"until {', '.join(users[:_MOST_NAMED])} ended" if users else "for good"
        return f"{self._program.buffers[buffer].label!r} (held {until})"

    def result(self, trace: Trace, energy: dict[str, float]) -> SimulationResult:
        """Return the figures of the finished run."""
        makespan = trace.makespan_ps
        traffic: dict[str, float] = dict.fromkeys(self._machine.memories, 0.0)
        peaks: dict[str, int] = dict.fromkeys(self._machine.memories, 0)
        for port, name in enumerate(self._demands.names):
            kind = base_name(name)
            traffic[kind] += self._traffic[port]
            peaks[kind] = max(peaks[kind], self._space.spaces[port].peak_bytes)
        used = {}
        for name, unit in self._machine.units.items():
            used[name] = (
                self._busy_ps.get(name, 0) / (makespan * unit.count * unit.servers) if makespan else 0.0
            )
        for name, memory in self._machine.memories.items():
            port_bytes = memory.bandwidth_bytes_per_s * memory.copies * makespan / PS_PER_S
            used[name] = min(traffic[name] / port_bytes, 1.0) if makespan else 0.0
        return SimulationResult(
            makespan_ps=makespan,
            busy_ps=self._busy_ps,
            utilisation=used,
            traffic_bytes={name: round(size) for name, size in traffic.items()},
            peak_occupancy_bytes=peaks,
            waited_ps=self._waited_ps,
            critical_ps=trace.critical_ps(),
            energy_pj=energy,
            simulated_events=next(self._env._eid),
            trace=trace,
        )


def simulate(program: Program, spec: ClusteredDsa) -> SimulationResult:
    """Run ``program`` on the machine ``spec`` and return its figures.

    Raises ``ProgramError`` for a program that names what the machine lacks, ``HardwareError`` for a dtype
    that its units do not compute, ``SimulationError`` for buffers that cannot fit and for deadlock.
    """
    machine = dsa_machine(spec)
    check_program(program, machine)
    run = _Run(program, machine)
    with collector_paused():
        trace = run.run()
    return run.result(trace, energy_pj(program, spec, trace.makespan_ps))
