"""The program of a schedule: launches, then layer after layer, tile after tile.

Instances run in sequence: a launch waits until the kernel before it has ended. Inside a layer, loads run ahead of
computation and stores behind it, double-buffered. Where layers overlap, a tile waits only for the tiles that it reads
of the runs that may still be executing by the schedule, and weights are prefetched as far ahead as the prefetch buffers
allow, though not before the kernel's launch.

Where clusters share every kernel, each runs this program on its own parts. They are equally large, so clusters are at
the same instruction at any time, and what one waits for has ended on all of them: there is no barrier to emit.
"""

from collections.abc import Iterable, Sequence

from dsascape.hw_models import Buffer, Launch, Program, Work, dsa_machine
from dsascape.hw_models.dsa.levels import CORE
from dsascape.hw_models.simulation.columns import Rows
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.scheduler.dsa.lower.code import RunCode, Target
from dsascape.scheduler.dsa.lower.emit import ENTRY, LAUNCH, ROOM, TILE, addresses_of, names_of
from dsascape.scheduler.dsa.lower.layer import WrittenLayer
from dsascape.scheduler.dsa.lower.prefetch import Prefetch
from dsascape.scheduler.dsa.lower.prefetch_buffer import prefetch_buffer
from dsascape.scheduler.dsa.lower.tile_waits import TileWaits, Waits, WrittenRun
from dsascape.scheduler.dsa.lower.written import BurstSizes, written_run
from dsascape.scheduler.dsa.placing.needs import output_shares
from dsascape.scheduler.dsa.schedule.limits import network_bytes
from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun, Schedule
from dsascape.scheduler.dsa.view import DDR, LOCAL, DsaView
from dsascape.scheduler.programs.builder import ProgramBuilder
from dsascape.scheduler.programs.fragments import Outside
from dsascape.scheduler.programs.relocation import relocation


def lower(schedule: Schedule, view: DsaView) -> Program:
    """Return the program of ``schedule``, which all clusters in use run.

    Raises ``ScheduleError`` if the weights in flight do not fit the prefetch buffers.
    """
    with collector_paused():
        return _Lowering(schedule, view).run()


class _Lowering:
    def __init__(self, schedule: Schedule, view: DsaView) -> None:
        self._schedule = schedule
        self._slices = schedule.slices
        self._view = view
        self._builder = ProgramBuilder(view.transfer_ps)
        self._columns = relocation()
        self._prefetch = self._prefetch_buffers()
        self._buffers: dict[int, int] = {}
        """Buffer number of each live slice."""
        self._at_work: list[WrittenRun] = []
        self._ended: list[tuple[tuple[int, ...], WrittenRun | None]] = []
        """Last instructions of ended runs, with the first run that waits for them, until that has ended itself."""
        self._entry: tuple[int, ...] = ()
        """Instructions that must end before the current run begins: those of ``_ended``, each once."""
        self._last_reads: dict[int, set[int]] = {}
        """Slices whose last reader is each run."""
        for number, live in schedule.live_ranges.items():
            self._last_reads.setdefault(live.stop - 1, set()).add(number)

    def _prefetch_buffers(self) -> Prefetch | None:
        kept = self._schedule.prefetch
        if kept is None:
            return None
        dma, path = self._view.spec.dma, self._view.spec.on_chip_path
        return Prefetch(
            prefetch_buffer("the global prefetch buffer", kept.global_bytes, dma.load_channels * dma.load.in_flight),
            prefetch_buffer("the local buffers' prefetch buffer", kept.local_bytes, path.in_flight),
        )

    def run(self) -> Program:
        builder, number = self._builder, 0
        for instance in self._schedule.instances:
            if not instance.runs:
                continue
            builder.begin_layer()
            work = builder.work(Work(unit="launch", payload=Launch()), self._view.spec.launch_ps)
            launch = builder.add(work, instance.name, _exits(self._at_work))
            if not number:
                size = network_bytes(self._schedule, self._view)
                builder.allocate(launch, Buffer(DDR, size, label="weights and inputs"))
            self._at_work, self._ended, self._entry = [], [((launch,), None)], (launch,)
            if self._prefetch is not None:
                self._prefetch.launch = launch
            for layer_run in instance.runs:
                self._emit(layer_run, number)
                self._release(layer_run, number)
                number += 1
        machine, interleaved = dsa_machine(self._view.spec), self._schedule.is_interleaved
        return builder.build(machine, interleaved=interleaved, cluster=self._view.clusters)

    def _emit(self, run: LayerRun, number: int) -> None:
        execution = self._schedule.executions[number]
        opened = self._begin(run, number, execution)
        writers = {written: one for one in self._at_work for written in one.run.writes}
        waits = TileWaits(run, execution.tiling, writers, self._slices)
        layer = self._written(run, execution, waits.by_tile)
        first = len(self._builder)
        outside = self._outside(layer, opened, waits, first)
        self._builder.begin_layer(number)
        self._builder.place(layer.fragment, names_of(run), addresses_of(run, execution), outside, opened.entry)
        for written in run.writes:
            self._store(written, layer, first, run.binding.cores)
        opened.exits = tuple([first + position for position in layer.fragment.exits])
        opened.done = [first + done for done in layer.done]
        self._at_work.append(opened)

    def _written(self, run: LayerRun, execution: Execution, waits: Waits) -> WrittenLayer:
        """Return the instructions of a run, which equal runs share on machines with equal on-chip rates."""
        schedule, view, prefetch = self._schedule, self._view, self._schedule.prefetch
        sizes = BurstSizes(
            schedule.burst_bytes, execution.tiling.store_burst_bytes, 0 if prefetch is None else prefetch.global_bytes
        )
        target = Target(view.on_chip_rates, view.paths, schedule.dtype, self._prefetch is not None)
        shares = tuple(output_shares(run, self._slices).items())
        return written_run(run.layer, RunCode.of(run, execution), waits, shares, sizes, target)

    def _outside(self, layer: WrittenLayer, opened: WrittenRun, waits: TileWaits, first: int) -> Rows:
        """Return the instructions for each external dependency of a run whose first instruction is at ``first``."""
        rooms: Sequence[Rows] = ()
        ends: dict[Outside, tuple[int, ...]] = {ENTRY: opened.entry}
        if self._prefetch is not None:
            rooms = self._prefetch.pass_through(layer.prefetch, first)
            ends[LAUNCH] = (self._prefetch.launch,)
        rows = Rows()
        for what in layer.outside:
            if what.kind == ROOM:
                self._columns.extend(rows, rooms[what.number])
            elif what.kind == TILE:
                rows.append((waits.position(what.number, what.part),))
            else:
                rows.append(ends[what])
        return rows

    def _begin(self, run: LayerRun, number: int, execution: Execution) -> WrittenRun:
        """Return the run that begins now; drop the runs that have ended by then from those still executing."""
        opened = WrittenRun(number, run, execution.tiling)
        ended = [one for one in self._at_work if one.number <= execution.begins_after]
        if ended:
            self._at_work = self._at_work[len(ended) :]
            # waiting for the end of a run that had waited for others covers those
            still = [(exits, by) for exits, by in self._ended if any(by is one for one in self._at_work)]
            self._ended = [*still, (_exits(ended), opened)]
            self._entry = tuple(dict.fromkeys([position for exits, _ in self._ended for position in exits]))
        opened.entry = self._entry
        return opened

    def _store(self, number: int, layer: WrittenLayer, first: int, cores: int) -> None:
        """Allocate a slice by the first writing instruction of the run that begins at position ``first``."""
        stored = self._slices[number]
        if stored.memory == LOCAL:
            writing, size = layer.first_compute, stored.core_bytes
        else:
            writing, size = layer.first_stores[stored.memory], stored.size_bytes
            if self._view.level[stored.memory].store.of == CORE:
                size //= cores  # all together no more than planned
        buffer = Buffer(stored.memory, size, label=stored.tensor, address=stored.address)
        self._buffers[number] = self._builder.allocate(first + writing, buffer)

    def _release(self, run: LayerRun, step: int) -> None:
        """Free the slices that no later run reads, once all runs that may still read them have ended."""
        last = self._last_reads.get(step)
        if last is None:
            return
        for number in dict.fromkeys([number for held in run.reads.values() for number in held]):
            if number not in last or number not in self._buffers:
                continue
            readers = [one for one in self._at_work if any(number in held for held in one.run.reads.values())]
            for position in _exits(readers):
                self._builder.free(position, self._buffers[number])
            del self._buffers[number]


def _exits(runs: Iterable[WrittenRun]) -> tuple[int, ...]:
    """Return the last instructions of ``runs``."""
    return tuple(dict.fromkeys([position for one in runs for position in one.exits]))
