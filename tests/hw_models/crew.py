"""Small machines with block scheduling: clusters of cores that may differ in speed.

A core takes its pace in picoseconds for one simple operation, and so long for every block that it holds. Each has a
memory of its own, ``own``; a cluster has ``shared``, the chip ``dram`` and a host that launches.
"""

from dataclasses import dataclass

from dsascape.hw_models import (
    Buffer,
    Compute,
    EnergyModel,
    Instruction,
    Launch,
    Level,
    Machine,
    Members,
    Memory,
    Program,
    ProgramError,
    Service,
    SimulationResult,
    Transfer,
    Unit,
)
from dsascape.hw_models.simulation.instructions import CHIP, Payload
from dsascape.hw_models.simulation.machine import Serve, ceil_ps
from dsascape.hw_models.text.quantities import PS_PER_S
from tests.hw_models.every_engine import simulated_on_every_engine

LAUNCH_PS = 7
CAPACITY_BYTES = 100
ENERGY = EnergyModel(
    machine="crew", mac_pj={}, simple_pj=3.0, special_pj=0.0, byte_pj={"own": 1.0, "shared": 2.0, "dram": 10.0},
    static_power_w=1.0,
)  # fmt: skip


@dataclass(frozen=True)
class Crew:
    """The members of each of ``clusters``, and the bytes per picosecond of their memories."""

    kinds: tuple[tuple[int, int], ...] = ((4, 1),)
    """How many cores of which pace, the fastest first."""
    clusters: int = 1
    most_blocks: int = 2
    startup_ps: int = 0
    """Start-up of each group of blocks that a core gets, in ps."""
    dram: int = 1000
    own: int = 1000

    @property
    def cores(self) -> int:
        """Cores of one cluster."""
        return sum(count for count, _ in self.kinds)

    @property
    def machine(self) -> Machine:
        members = tuple(Members(count, self._computing(pace_ps)) for count, pace_ps in self.kinds)
        units = (
            Unit("core", "core", members, most_blocks=self.most_blocks),
            Unit("dma", "cluster", (Members(self.clusters, self._moving),)),
            Unit("host", CHIP, (Members(1, self._launching),)),
        )
        memories = (
            Memory("own", "core", CAPACITY_BYTES, float(self.own * PS_PER_S)),
            Memory("shared", "cluster", CAPACITY_BYTES, 1000.0 * PS_PER_S),
            Memory("dram", CHIP, CAPACITY_BYTES, float(self.dram * PS_PER_S)),
        )
        levels = Level("cluster", self.clusters), Level("core", self.cores)
        return Machine("crew", levels, {m.name: m for m in memories}, {u.name: u for u in units})

    def _computing(self, pace_ps: int) -> Serve:
        def serve(payload: Payload, blocks: int) -> Service:
            if not isinstance(payload, Compute):
                raise ProgramError("a core computes")
            largest = max((size for _, size in payload.traffic), default=0)
            touches = tuple((memory, size / largest) for memory, size in payload.traffic if size)
            return Service(self.startup_ps, payload.simple * pace_ps * blocks, largest * blocks, touches, "core")

        return serve

    def _moving(self, payload: Payload, blocks: int) -> Service:
        if not isinstance(payload, Transfer):
            raise ProgramError("a DMA moves")
        size = payload.size_bytes * blocks
        return Service(0, ceil_ps(size, PS_PER_S), size, ((payload.source, 1.0), (payload.destination, 1.0)), "dma")

    def _launching(self, payload: Payload, blocks: int) -> Service:
        if not isinstance(payload, Launch):
            raise ProgramError("the host launches")
        return Service(LAUNCH_PS * blocks, 0, 0, (), "host")

    def program(self, *instructions: Instruction, buffers: tuple[Buffer, ...] = ()) -> Program:
        return self.machine.program(instructions, buffers)

    def simulated(self, program: Program) -> SimulationResult:
        return simulated_on_every_engine(program, self.machine, ENERGY)

    def run(self, *instructions: Instruction, buffers: tuple[Buffer, ...] = ()) -> SimulationResult:
        return self.simulated(self.program(*instructions, buffers=buffers))


def work(simple: int, dram: int = 0, own: int = 0) -> Compute:
    """Return operations, and the bytes of memories that they read and write."""
    return Compute(dtype="fp32", simple=simple, traffic=(("dram", dram), ("own", own)))


def blocks(label: str, count: int, payload: Payload, after: tuple[int, ...] = (), at_once: int = 1) -> Instruction:
    """Return ``count`` blocks for whichever cores are free; one holds ``at_once`` at most."""
    return Instruction(unit="core", payload=payload, label=label, after=after, blocks=count, blocks_per_member=at_once)


def bound(label: str, payload: Payload, after: tuple[int, ...] = (), participants: int = 0) -> Instruction:
    """Return work that every core does once, or the first ``participants`` of a cluster."""
    return Instruction(unit="core", payload=payload, label=label, after=after, participants=participants)


def move(label: str, size_bytes: int, after: tuple[int, ...] = ()) -> Instruction:
    """Return a transfer from DRAM to the shared memory, a byte per picosecond at full speed."""
    moved = Transfer(source="dram", destination="shared", size_bytes=size_bytes)
    return Instruction(unit="dma", payload=moved, label=label, after=after)


def host(label: str, after: tuple[int, ...] = ()) -> Instruction:
    """Return a launch."""
    return Instruction(unit="host", payload=Launch(), label=label, after=after)
