"""From a schedule to a program: launches, then layer after layer, tile after tile.

Instances follow each other: a launch waits until the kernel before it has ended. Inside a layer, loads run ahead of
computation and stores behind it, two buffers each. A layer starts when the layer before it has ended; but where the
schedule overlaps layers, a tile waits only for the tiles that it reads, as far as the buffers have room for the layers
that are at work then, and weights are fetched as far ahead as their windows reach, though not before the kernel's
launch.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from hw_models import Buffer, ClusteredDsa, Launch, Program
from hw_models.machine import dsa_machine
from hw_models.pause import collector_paused
from scheduler.binding import held_elsewhere
from scheduler.builder import ProgramBuilder
from scheduler.device import DsaDevice, ScheduleError
from scheduler.emitting import Exchange, LayerPlace
from scheduler.lower_layer import LayerEmitter, Works
from scheduler.occupancy import MOST_OPEN, Blocks, Occupancy, OpenRun
from scheduler.overlap import TileWaits
from scheduler.prefetch import Prefetch, Window
from scheduler.schedule import LayerRun, Schedule, core_needs, share_by_scope, whole_needs
from scheduler.slots import TileSlots, tile_slots
from scheduler.tile_choice import TileChooser, TilingCache
from scheduler.tiling import Route, TileRequest, Tiling
from scheduler.work import DEPTH
from workloads.loopnest import Box

_BUDGET_STEPS = 64
"""Budgets are rounded down to this share of the local buffer, so that like layers find like tiles."""
LOCAL_WINDOW = 0.6
"""Share of the local buffer's weight window that weights fetched ahead pass through; tiles take the rest."""
GLOBAL_WINDOW = 0.25
"""The same of the whole global buffer."""


def lower(schedule: Schedule, spec: ClusteredDsa, clusters: int, cache: TilingCache | None = None) -> Program:
    """Return the program of ``schedule`` on ``clusters`` clusters that all do the same.

    Raises ``ScheduleError`` when a layer's smallest tile does not fit or DDR cannot hold the network. ``cache`` keeps
    tilings between calls for the same machine.
    """
    with collector_paused():
        return _Lowering(schedule, spec, clusters, {} if cache is None else cache).run()


class _Lowering:
    def __init__(self, schedule: Schedule, spec: ClusteredDsa, clusters: int, cache: TilingCache) -> None:
        self._schedule = schedule
        self._spec = spec
        self._clusters = clusters
        self._device = DsaDevice(spec, clusters)
        self._builder = ProgramBuilder()
        self._prefetch = self._windows() if schedule.overlaps_layers else None
        local_bytes, shared_bytes = spec.local_buffer.capacity_bytes, self._device.global_buffer_bytes
        if self._prefetch is not None:
            local_bytes -= self._prefetch.local.capacity_bytes
            shared_bytes -= self._prefetch.shared.capacity_bytes
        self._tiles = TileChooser(self._device, local_bytes, shared_bytes, cache)
        self._occupancy = Occupancy({"local_buffer": local_bytes, "global_buffer": shared_bytes})
        self._buffers: dict[int, int] = {}
        """Of the pieces that are stored at the moment."""
        self._works: Works = {}
        self._open: list[OpenRun] = []
        self._ended: list[tuple[tuple[int, ...], OpenRun | None]] = []
        """Last instructions of what has to have ended, with the first run that waits for them, until that has ended."""
        self._last_use = self._last_uses()

    def _windows(self) -> Prefetch | None:
        """Return the windows that weights pass through; None on a machine without a global buffer.

        None also where the local one is so small that passing through its halves is mostly starting up.
        """
        local = int(self._device.weight_window_bytes * LOCAL_WINDOW)
        if not self._device.global_buffer_bytes or local < 2 * self._device.path_startup_bytes:
            return None
        shared = int(self._device.global_buffer_bytes * GLOBAL_WINDOW)
        channels = self._spec.dma.load_channels
        return Prefetch(
            Window("the local buffers' weight window", local),
            Window("the global buffer's window", shared, channels),
        )

    def _last_uses(self) -> dict[int, int]:
        """Return for each piece that is read the running number of the last run that does."""
        last = {}
        for number, run in enumerate(self._schedule.runs):
            for pieces in run.reads.values():
                for piece in pieces:
                    last[piece] = number
        return last

    def run(self) -> Program:
        builder, number = self._builder, 0
        for instance in self._schedule.instances:
            if not instance.runs:
                continue
            builder.begin_layer()
            launch = builder.add(
                partial(Launch, unit="launch", label=instance.name), "launch", self._exits(self._open),
                self._spec.launch_ps,
            )  # fmt: skip
            if not number:
                self._hold_network(launch)
            self._open, self._ended = [], [((launch,), None)]
            if self._prefetch is not None:
                self._prefetch.launch = launch
            for layer_run in instance.runs:
                self._emit(layer_run, number)
                self._release(layer_run, number)
                number += 1
        scopes = dsa_machine(self._spec).scopes
        cores, interleaved = self._device.cores_per_cluster, self._schedule.overlaps_layers
        return builder.build(self._clusters, cores, scopes, interleaved=interleaved)

    @staticmethod
    def _exits(runs: Iterable[OpenRun]) -> tuple[int, ...]:
        """Return the instructions that end ``runs``."""
        return tuple(dict.fromkeys(position for one in runs for position in one.exits))

    def _hold_network(self, launch: int) -> None:
        """Let weights and network inputs take their place in DDR."""
        graph = self._schedule.graph
        inputs = sum(graph.tensors[name].size_bytes for name in graph.inputs)
        size = graph.weight_bytes // self._clusters + inputs
        if size * self._clusters > self._spec.ddr.capacity_bytes:
            raise ScheduleError(
                f"{graph.name}: weights and inputs need {size * self._clusters} bytes, ddr.capacity is less"
            )
        self._builder.allocate(launch, Buffer("ddr", size, label="weights and inputs"))

    def _emit(self, run: LayerRun, number: int) -> None:
        need, exchanged_bytes = self._needs(run)
        routes = self._routes(run, need)
        for piece in run.writes:
            self._hold(piece)
        shares = self._output_shares(run)
        scope = next(memory for memory in ("ddr", "global_buffer", "local_buffer") if memory in shares)
        exchange = self._exchange(run, exchanged_bytes)
        tiling = self._tiling(run, routes, scope, exchange)
        opened = self._opened(run, tiling, routes, exchange)
        writers = {piece: one for one in self._open for piece in one.run.writes}
        waits = TileWaits(run, tiling, writers, self._schedule.pieces)
        place = LayerPlace(
            run=run, routes=routes, tiling=tiling, scope=scope, shares=shares, exchange=exchange,
            slots=opened.slots,
            dtype=self._schedule.dtype, has_global_buffer=self._spec.global_buffer is not None,
            broadcast=self._spec.on_chip_path.broadcast,
        )  # fmt: skip
        first = len(self._builder)
        self._builder.begin_layer(number)
        emitter = LayerEmitter(self._builder, self._device, place, self._prefetch, opened.entry, waits, self._works)
        emitter.run()
        for piece in run.writes:
            self._store(piece, emitter)
        self._builder.enter(first, opened.entry)
        opened.exits, opened.done = self._builder.exits(first), emitter.done
        self._open.append(opened)

    def _output_shares(self, run: LayerRun) -> dict[str, float]:
        """Return which share of what ``run`` writes goes to each memory."""
        sizes: dict[str, int] = {}
        for piece in (self._schedule.pieces[number] for number in run.writes):
            sizes[piece.scope] = sizes.get(piece.scope, 0) + piece.size_bytes
        total = max(sum(sizes.values()), 1)
        return {memory: size / total for memory, size in sizes.items()}

    def _opened(self, run: LayerRun, tiling: Tiling, routes: Mapping[str, Route], exchange: Exchange) -> OpenRun:
        """Decide which of the open runs may go on while ``run`` begins; the others will have ended."""
        pieces = self._schedule.pieces
        fetched = {  # what is streamed or exchanged is fetched in one go: its writers have to have ended
            p for name, held in run.reads.items() for p in held
            if name in routes or (exchange.core_bytes and pieces[p].scope == "local_buffer")
        }  # fmt: skip
        sizes = {
            "local_buffer": (*tiling.buffers, exchange.core_bytes),
            "global_buffer": (*tiling.staging, exchange.staged_bytes),
        }
        own: Blocks = {"local_buffer": [], "global_buffer": []}
        for piece in run.writes:
            if pieces[piece].scope != "ddr":
                own[pieces[piece].scope].append(self._occupancy.block(piece, pieces[piece]))
        ended = len(self._open) - MOST_OPEN if self._schedule.overlaps_layers else len(self._open)
        for place, one in enumerate(self._open):
            if fetched.intersection(one.run.writes):
                ended = max(ended, place + 1)
        ended = max(ended, 0)
        blocks = self._occupancy.beside(self._open[ended:], own, sizes)
        while blocks is None and ended < len(self._open):
            ended += 1
            blocks = self._occupancy.beside(self._open[ended:], own, sizes)
        slots = TileSlots()
        if blocks is not None:
            slots = tile_slots(tiling, blocks["local_buffer"], blocks["global_buffer"])
        opened = OpenRun(run, tiling, blocks or self._occupancy.everything(), slots)
        if ended:
            last, self._open = self._exits(self._open[:ended]), self._open[ended:]
            # whoever waits for the end of a run that had waited for others need not wait for those again
            still = [(exits, waiting) for exits, waiting in self._ended if any(waiting is one for one in self._open)]
            self._ended = [*still, (last, opened)]
        opened.entry = tuple(dict.fromkeys(position for exits, _ in self._ended for position in exits))
        return opened

    def _needs(self, run: LayerRun) -> tuple[Mapping[str, Box], int]:
        """Return the box of every operand that the whole run needs, and the bytes that a core fetches from others."""
        layer, pieces = run.layer, self._schedule.pieces
        need = whole_needs(run)
        resident = {
            name: [pieces[p] for p in held if pieces[p].scope == "local_buffer"] for name, held in run.reads.items()
        }
        resident = {name: held for name, held in resident.items() if held}
        if not resident:
            return need, 0
        needs = core_needs(run, pieces)
        exchanged = 0
        for name, held in resident.items():
            elements = held_elsewhere({c: n.get(name) for c, n in needs.items()}, [(p.box, p.binding) for p in held])
            exchanged += elements * layer.graph.tensors[name].element_bytes
        return need, exchanged

    def _routes(self, run: LayerRun, need: Mapping[str, Box]) -> dict[str, Route]:
        """Return the operands that have to be brought to the local buffers, and how."""
        layer, routes = run.layer, {}
        for name in layer.inputs:
            if name not in need:
                continue
            spread = 1
            for dim in layer.dependencies.get(name, ()):
                spread *= run.binding.factors[dim] if dim != DEPTH else 1
            sharing = max(run.binding.cores // spread, 1)
            if name not in run.reads:
                routes[name] = Route(1.0, 0.0, sharing)
                continue
            held = share_by_scope(self._schedule.pieces, run.reads[name], need[name])
            route = Route(held.get("ddr", 0.0), held.get("global_buffer", 0.0), sharing)
            if route.streamed:
                routes[name] = route
        return routes

    def _tiling(self, run: LayerRun, routes: dict[str, Route], scope: str, exchange: Exchange) -> Tiling:
        """Return the tiles of a run: their buffers lie in the gaps that the pieces and the windows leave."""
        windows = None
        if self._prefetch is not None:
            windows = (self._prefetch.local.capacity_bytes, self._prefetch.shared.capacity_bytes)
        step = max(self._spec.local_buffer.capacity_bytes // _BUDGET_STEPS, 1)
        tensors = run.layer.graph.tensors
        streamed = any(tensors[name].role != "weight" for name in routes)
        box = tuple(hi - lo for lo, hi in run.box)
        request = TileRequest(
            layer=run.layer, box=box, part=run.binding.part_extents(box), cores=run.binding.cores, routes=routes,
            output_scope=scope, dtype=self._schedule.dtype, windows=windows,
            paper_tiles=self._schedule.paper_tiles,
            local_gaps=self._occupancy.free_gaps("local_buffer", exchange.core_bytes, step),
            shared_gaps=self._occupancy.free_gaps("global_buffer", exchange.staged_bytes, 1),
            overlaps=self._schedule.overlaps_layers and not streamed and not exchange.core_bytes,
        )  # fmt: skip
        return self._tiles.choose(request)

    def _exchange(self, run: LayerRun, core_bytes: int) -> Exchange:
        """Return in how many rounds cores exchange ``core_bytes`` each: half the global buffer's largest gap is for it.

        Without a global buffer they reach each other directly.
        """
        if not core_bytes or not self._device.global_buffer_bytes:
            return Exchange(core_bytes)
        whole = core_bytes * run.binding.cores
        room = max(self._occupancy.free_gaps("global_buffer", 0, 1)[0] // 2, run.binding.cores)
        rounds = -(-whole // room)
        return Exchange(core_bytes, -(-core_bytes // rounds) * run.binding.cores, rounds)

    def _hold(self, number: int) -> None:
        """Let a piece have its place from now on; raise ``ScheduleError`` if the schedule gives it none."""
        piece = self._schedule.pieces[number]
        if piece.scope == "ddr":
            return
        if piece.address is None:
            raise ScheduleError(f"{self._schedule.graph.name}: {piece.tensor!r} has no address in the {piece.scope}")
        self._occupancy.hold(number, piece)

    def _store(self, piece: int, emitter: LayerEmitter) -> None:
        """Let the run's first writing instruction allocate the piece."""
        stored = self._schedule.pieces[piece]
        if stored.scope == "local_buffer":
            first, size = emitter.first_compute, stored.core_bytes
        elif stored.scope == "global_buffer":
            first, size = emitter.first_path_store, -(-stored.size_bytes // emitter.active_cores)
        else:
            first, size = emitter.first_dma_store, stored.size_bytes
        buffer = Buffer(stored.scope, size, label=stored.tensor, address=stored.address)
        self._buffers[piece] = self._builder.allocate(first, buffer)

    def _release(self, run: LayerRun, number: int) -> None:
        """Free the pieces that no later run reads, once all that may still read them have ended."""
        for piece in dict.fromkeys(piece for pieces in run.reads.values() for piece in pieces):
            if self._last_use[piece] != number or piece not in self._buffers:
                continue
            readers = [one for one in self._open if any(piece in held for held in one.run.reads.values())]
            for position in self._exits(readers):
                self._builder.free(position, self._buffers[piece])
            del self._buffers[piece]
            stored = self._schedule.pieces[piece]
            if stored.scope != "ddr":
                self._open[-1].blocks[stored.scope].append(self._occupancy.release(piece, stored))
