"""The discrete-event simulation: units take their queues' instructions, memories give space and bandwidth.

One SimPy process per queue (and server of it). A process takes the queue's next instruction, waits for what
the instruction depends on, then for the space it allocates, pays the start-up, and runs as a flow through the
memories. Members that do the same are one process with a multiplicity: their flows weigh as many on a shared
memory. That is exact as long as they stay in step: unless they compete for the last space of one memory.
"""

import math
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass

import simpy

from hw_models.bandwidth import Flow, SharedBandwidth
from hw_models.clustered_dsa import ClusteredDsa
from hw_models.energy import energy_pj
from hw_models.machine import Machine, check_program, dsa_machine
from hw_models.pause import collector_paused
from hw_models.program import AnyInstruction, Program, ProgramError, Transfer, base_name
from hw_models.quantities import PS_PER_S, format_bytes
from hw_models.space import SharedSpace, Space
from hw_models.trace import STARTED_BY_NOBODY, SimulationResult, Trace

SPACE = "space"
_MOST_NAMED = 3
_MOST_LINES = 6


class SimulationError(ValueError):
    """The machine cannot run the program: something does not fit, or everything waits for everything."""


@dataclass(frozen=True, slots=True)
class _Ports:
    """The memories of one run: those of the machine, one entry per member in an unrolled program."""

    names: list[str]
    position: dict[str, int]
    copies: list[int]


class _Run:
    """One simulation of one program on one machine."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self._program = program
        self._machine = machine
        self._env = simpy.Environment()
        self._ports = self._find_ports()
        names = self._ports.names
        bandwidths = [machine.memories[base_name(n)].bandwidth_bytes_per_s / PS_PER_S for n in names]
        self._bandwidth = SharedBandwidth(self._env, bandwidths, names)
        spaces = [Space(name, machine.memories[base_name(name)].capacity_bytes) for name in names]
        self._space = SharedSpace(self._env, spaces)
        self._is_unrolled = program.is_unrolled
        self._traffic = [0.0] * len(names)
        self._known_loads: dict[tuple[object, ...], tuple[tuple[int, float], ...]] = {}
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

    def _find_ports(self) -> _Ports:
        program, machine = self._program, self._machine
        active = {"local_buffer": program.clusters * program.cores, "global_buffer": program.clusters}
        if not program.is_unrolled:
            names = list(machine.memories)
            copies = [active.get(name, machine.memories[name].copies) for name in names]
        else:
            members = {b.memory for b in program.buffers if b.memory not in program.members}
            members.update(m for group in program.members.values() for m in group)
            for instruction in program.instructions:
                if isinstance(instruction, Transfer):
                    ends = {instruction.source, instruction.destination}
                    members.update(ends - program.members.keys())
                else:
                    members.add(self._own_memory(instruction))
            names = sorted(members)
            copies = [1] * len(names)
        return _Ports(names, {name: place for place, name in enumerate(names)}, copies)

    @staticmethod
    def _own_memory(instruction: AnyInstruction) -> str:
        """Return the local buffer beside an unrolled unit."""
        return f"local_buffer[{instruction.unit.partition('[')[2]}" if "." in instruction.unit else "ddr"

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
        env, program = self._env, self._program
        kind = base_name(name)
        serve = self._machine.units[kind].serve
        waited = self._waited_ps.setdefault(kind, {})
        previous = STARTED_BY_NOBODY
        while queue:
            position = queue.popleft()
            instruction = program.instructions[position]
            members = program.members_of(instruction)
            asked_ps = int(env.now)
            cause = previous
            if self._pending[position]:
                event = self._blocked[position] = env.event()
                yield event
                cause = self._last_dependency[position]
                who = base_name(program.instructions[cause].unit)
                waited[who] = waited.get(who, 0) + (int(env.now) - asked_ps) * members
            if instruction.allocates:
                asked_ps = int(env.now)
                wishes = [wish for b in instruction.allocates for wish in self._extent_of(b, instruction)]
                freed_by = yield self._space.ask(position, wishes)
                if env.now > asked_ps:
                    cause = freed_by
                    waited[SPACE] = waited.get(SPACE, 0) + (int(env.now) - asked_ps) * members
            self._start_ps[position] = start_ps = int(env.now)
            self._released_by[position] = cause
            service = serve(instruction)
            self._startup_ps[position] = service.startup_ps
            self._limits[position] = service.limit
            if service.startup_ps:
                yield env.timeout(service.startup_ps)
            if service.duration_ps or service.bytes_moved:
                loads = self._loads(instruction, service.touches, members) if service.bytes_moved else ()
                flow = self._flow(service.duration_ps, service.bytes_moved, loads, service.limit)
                finished = env.event()
                self._bandwidth.start(flow, finished.succeed)
                yield finished
                self._limits[position] = flow.longest_limit
                for port, weight in loads:
                    moved = weight * service.bytes_moved * self._ports.copies[port]
                    self._traffic[port] += moved * self._taking_part(instruction, port)
            self._end_ps[position] = end_ps = int(env.now)
            self._busy_ps[kind] = self._busy_ps.get(kind, 0) + (end_ps - start_ps) * members
            self._finish(position, instruction)
            previous = position

    def _flow(
        self, duration_ps: int, size_bytes: int, loads: tuple[tuple[int, float], ...], limit: str
    ) -> Flow:
        """Return the flow of an instruction, slowed to what the memories give when nobody else uses them."""
        demand = size_bytes / duration_ps if duration_ps else math.inf
        capacities = self._bandwidth.capacities
        slowest = demand
        for port, weight in loads:
            alone = capacities[port] / weight
            if alone < slowest:
                slowest = alone
                limit = self._ports.names[port]
        return Flow(size_bytes / slowest if slowest < demand else duration_ps, slowest, loads, limit)

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

    def _members_of(self, memory: str) -> list[int]:
        group = self._program.members.get(memory)
        names = (memory,) if group is None else group
        return [self._ports.position[name] for name in names]

    def _loads(
        self, instruction: AnyInstruction, touches: tuple[tuple[str, float], ...], members: int
    ) -> tuple[tuple[int, float], ...]:
        """Return the load that one byte per second of this instruction puts on one copy of each memory."""
        key = instruction.unit, touches, members
        if key not in self._known_loads:
            self._known_loads[key] = self._find_loads(instruction, touches, members)
        return self._known_loads[key]

    def _find_loads(
        self, instruction: AnyInstruction, touches: tuple[tuple[str, float], ...], members: int
    ) -> tuple[tuple[int, float], ...]:
        source = getattr(instruction, "source", None)
        loads: dict[int, float] = {}
        for memory, times in touches:
            name = memory
            if source is None and self._is_unrolled:
                name = self._own_memory(instruction)
            ports = self._members_of(name)
            for port in ports:
                share = members / (self._ports.copies[port] * len(ports) * self._taking_part(instruction, port))
                loads[port] = loads.get(port, 0.0) + times * share
        return tuple(loads.items())

    def _taking_part(self, instruction: AnyInstruction, port: int) -> float:
        """Return the share of a memory's copies that have a part in it: local buffers of idle cores have none."""
        if not instruction.active_cores or self._ports.names[port] != "local_buffer":
            return 1.0
        return self._program.members_of(instruction) / self._program.multiplicity(instruction.unit)

    def _extent_of(self, buffer: int, instruction: AnyInstruction) -> list[tuple[int, int, int]]:
        """Return ``buffer`` with each memory that it takes, and the bytes that it takes in one copy of it."""
        wanted = self._program.buffers[buffer]
        extents = []
        ports = self._members_of(wanted.memory)
        for port in ports:
            copies = self._ports.copies[port] * len(ports)
            own = self._ports.names[port] == "local_buffer"  # as much as a core that takes part needs
            members = self._program.multiplicity(instruction.unit) if own else self._program.members_of(instruction)
            size = -(-wanted.size_bytes * wanted.fan_out * members // copies)
            space = self._space.spaces[port]
            if size > space.capacity_bytes:
                raise SimulationError(
                    f"buffer {wanted.label!r} needs {format_bytes(size)}, a {base_name(space.name)} holds"
                    f" {format_bytes(space.capacity_bytes)}"
                )
            extents.append((buffer, port, size))
        return extents

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
        for port, name in enumerate(self._ports.names):
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
