"""The execution of every layer run of a layout: decided run by run, in order, before any instruction is written.

For each run: the units of its nests, where its operands come from, in how many rounds cores exchange halos, its tiles
and where they lie, and which of the runs before it have to have ended when it begins. A kernel begins when the one
before has ended; inside a kernel a layer begins when the layer before it has ended, but where layers may overlap up to
a few are at work at once, as far as the buffers have room for all their tiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.dsa.costs import DsaCosts
from scheduler.dsa.free_space import Blocks, FreeSpace, RunAtWork, on_chip
from scheduler.dsa.limits import check_ddr, check_instructions
from scheduler.dsa.needs import RunNeeds, exchange_rounds, needs_of, outermost_memory, output_shares
from scheduler.dsa.schedule import (
    Execution,
    HaloExchange,
    LayerRun,
    Layout,
    PrefetchBuffers,
    Schedule,
    TensorSlice,
    TileAddresses,
)
from scheduler.dsa.tiling.choice import TileChooser
from scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from scheduler.dsa.unit_choice import Units
from scheduler.dsa.view import DDR, GLOBAL, LOCAL, DsaView
from scheduler.errors import ScheduleError


def prefetch_buffers(view: DsaView) -> PrefetchBuffers | None:
    """Return the buffers that weights are fetched ahead through; None on a machine without a global buffer.

    None also where the local one is so small that passing through its halves is mostly starting up.
    """
    tuning = view.tuning
    local = int(view.weight_window_bytes * tuning.prefetch_share_of_weight_window)
    if not view.global_buffer_bytes or local < 2 * view.path_startup_bytes:
        return None
    further = int(view.global_buffer_bytes * tuning.prefetch_share_of_global_buffer)
    return PrefetchBuffers(local, further, view.local_buffer_bytes - local, view.global_buffer_bytes - further)


def decide(
    layout: Layout, costs: DsaCosts, policy: str, *, overlaps_layers: bool = False, paper_tiles: bool = False,
    needs: Sequence[RunNeeds] | None = None,
) -> Schedule:  # fmt: skip
    """Return the schedule of ``layout`` with every run's execution decided; ``needs`` of its runs, if they are known.

    ``overlaps_layers``: weights of later layers of a kernel are fetched, and their tiles computed, while earlier ones
    compute; queues are list-scheduled where any do so. ``paper_tiles``: tiles are those of GraphTurbo's text (section
    4.1), where these fit. Raises ``ScheduleError`` when a layer's smallest tile does not fit, DDR cannot hold the
    network, a slice on the chip has no address, or lowering would take more instructions than are allowed.
    """
    check_ddr(layout, costs.view)
    prefetch = prefetch_buffers(costs.view) if overlaps_layers else None
    how = _How(prefetch, overlaps_layers, paper_tiles)
    if needs is None:
        needs = needs_of(layout.runs, layout.slices, broadcasts=costs.view.broadcasts)
    executions = _Decider(layout, costs, how).run(needs)
    check_instructions(layout.runs, executions, costs.view, layout.graph.name)
    overlaps = prefetch is not None or any(one.begins_after < number - 1 for number, one in enumerate(executions))
    return Schedule(
        layout.plan, layout.instances, layout.slices, costs.dtype, costs.view.clusters, executions, prefetch,
        costs.view.burst_bytes, "list scheduling" if overlaps else "by layer", policy,
    )  # fmt: skip


def capacities(view: DsaView, prefetch: PrefetchBuffers | None) -> dict[str, int]:
    """Return what the prefetch buffers leave of the on-chip memories."""
    if prefetch is None:
        return {LOCAL: view.local_buffer_bytes, GLOBAL: view.global_buffer_bytes}
    return {LOCAL: prefetch.local_address, GLOBAL: prefetch.global_address}


@dataclass(frozen=True, slots=True)
class _How:
    prefetch: PrefetchBuffers | None
    overlaps_layers: bool
    paper_tiles: bool


class _Decider:
    def __init__(self, layout: Layout, costs: DsaCosts, how: _How) -> None:
        self._layout = layout
        self._slices = layout.slices
        self._costs = costs
        self._view = costs.view
        self._how = how
        room = capacities(self._view, how.prefetch)
        self._tiles = TileChooser(self._view, room[LOCAL], room[GLOBAL], costs.known)
        self._space = FreeSpace(room, self._view.tuning.most_gaps)
        self._at_work: list[RunAtWork] = []
        self._last_use = {number: live.stop - 1 for number, live in layout.live_ranges.items()}

    def run(self, needs: Sequence[RunNeeds]) -> tuple[Execution, ...]:
        found: list[Execution] = []
        for instance in self._layout.instances:
            self._at_work = []
            for run in instance.runs:
                found.append(self._decide(run, len(found), *needs[len(found)]))
                self._release(run, len(found) - 1)
        return tuple(found)

    def _decide(self, run: LayerRun, number: int, core_bytes: int, streamed: Mapping[str, Route]) -> Execution:
        for written in run.writes:
            self._hold(written)
        exchange = self._exchange(run, core_bytes)
        part = run.binding.part_extents(run.extents)
        units = self._costs.units_of(run.layer, part)
        tiling = self._tiling(run, streamed, units, exchange)
        addresses, begins_after = self._placed(run, number, tiling, streamed, exchange)
        return Execution(streamed, units, tiling, exchange, addresses, begins_after)

    def _exchange(self, run: LayerRun, core_bytes: int) -> HaloExchange:
        """Return how cores exchange ``core_bytes`` each: half the global buffer's largest gap is for it.

        Without a global buffer they reach each other directly.
        """
        if not core_bytes or not self._view.global_buffer_bytes:
            return HaloExchange(core_bytes)
        room_bytes = self._space.free_gaps(GLOBAL, 0, 1)[0] // 2
        return exchange_rounds(core_bytes, run.binding.cores, room_bytes)

    def _tiling(
        self, run: LayerRun, streamed: Mapping[str, Route], units: Units, exchange: HaloExchange
    ) -> Tiling:
        """Return the tiles of a run: their buffers lie in the gaps that slices and prefetch buffers leave."""
        how, tensors = self._how, run.layer.graph.tensors
        step = max(self._view.local_buffer_bytes // self._view.tuning.gap_steps, 1)
        brings_activations = any(tensors[name].role != "weight" for name in streamed)
        request = TileRequest(
            layer=run.layer, box=run.extents, part=run.binding.part_extents(run.extents), cores=run.binding.cores,
            units=units, routes=streamed, output_memory=outermost_memory(output_shares(run, self._slices)),
            dtype=self._costs.dtype, paper_tiles=how.paper_tiles,
            prefetch=None if how.prefetch is None else (how.prefetch.local_bytes, how.prefetch.global_bytes),
            local_gaps=self._space.free_gaps(LOCAL, exchange.core_bytes, step),
            global_gaps=self._space.free_gaps(GLOBAL, exchange.staged_bytes, 1),
            overlaps=how.overlaps_layers and not brings_activations and not exchange.core_bytes,
        )  # fmt: skip
        return self._tiles.choose(request)

    def _placed(
        self, run: LayerRun, number: int, tiling: Tiling, streamed: Mapping[str, Route], exchange: HaloExchange
    ) -> tuple[TileAddresses, int]:
        """Return where a run's tiles lie, and the last run that has to have ended before it begins."""
        at_work = self._at_work
        fetched = fetched_at_once(run, self._slices, streamed, exchange)
        sizes = buffer_sizes(tiling, exchange)
        own = on_chip(run.writes, self._slices, self._space)
        ended = len(at_work)
        if self._how.overlaps_layers:
            ended = max(ended - self._view.tuning.most_layers_at_work, 0)
        for place, one in enumerate(at_work):
            if fetched.intersection(one.run.writes):
                ended = max(ended, place + 1)
        blocks = self._space.beside(at_work[ended:], own, sizes)
        while blocks is None and ended < len(at_work):
            ended += 1
            blocks = self._space.beside(at_work[ended:], own, sizes)
        addresses = TileAddresses() if blocks is None else tile_addresses(tiling, blocks)
        begins_after = at_work[ended - 1].number if ended else (at_work[0].number if at_work else number) - 1
        self._at_work = [*at_work[ended:], RunAtWork(number, run, blocks or self._space.everything())]
        return addresses, begins_after

    def _hold(self, number: int) -> None:
        """Let a slice have its place from now on; raise ``ScheduleError`` if the layout gives it none."""
        held = self._slices[number]
        if held.memory == DDR:
            return
        if held.address is None:
            raise ScheduleError(f"{self._layout.graph.name}: {held.tensor!r} has no address in the {held.memory}")
        self._space.hold(number, held)

    def _release(self, run: LayerRun, step: int) -> None:
        """Take back the place of the slices that no later run reads: it is the last one's until that has ended."""
        for number in dict.fromkeys(number for held in run.reads.values() for number in held):
            if self._last_use.get(number) == step and self._slices[number].memory != DDR:
                block = self._space.release(number, self._slices[number])
                self._at_work[-1].blocks[self._slices[number].memory].append(block)


def fetched_at_once(
    run: LayerRun, slices: Sequence[TensorSlice], streamed: Mapping[str, Route], exchange: HaloExchange
) -> set[int]:
    """Return the slices that a run fetches in one go, streamed or exchanged: their writers have to have ended."""
    return {
        number
        for name, held in run.reads.items()
        for number in held
        if name in streamed or (exchange.core_bytes and slices[number].memory == LOCAL)
    }


def buffer_sizes(tiling: Tiling, exchange: HaloExchange) -> dict[str, tuple[int, ...]]:
    """Return the bytes of every buffer of a run by memory, those of its halo exchange last."""
    return {
        LOCAL: (*tiling.local_buffers, exchange.core_bytes),
        GLOBAL: (*tiling.global_buffers, exchange.staged_bytes),
    }


def tile_addresses(tiling: Tiling, blocks: Blocks) -> TileAddresses:
    """Return the addresses of a run's buffers that lie in ``blocks``, which are in the order of `buffer_sizes`."""
    near = iter([block.address for block in blocks[LOCAL]])
    operands = {
        name: tuple([next(near) for _ in range(2 if times > 1 else 1)])
        for name, times in tiling.loads.items()
        if name not in tiling.prefetched
    }
    between, *output, halo = near
    far = [block.address for block in blocks[GLOBAL]]
    staged = {name: (place,) for name, place in zip(tiling.staged, far, strict=False)}
    passing, storing, sent = far[len(staged) : -3], far[-3:-1], far[-1:]
    return TileAddresses(
        operands, (between,), tuple(output), (halo,), staged, tuple(passing), tuple(storing), tuple(sent)
    )
