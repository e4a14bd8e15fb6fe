"""The execution of every layer run of a layout: decided run by run, in order, before any instruction is written.

For each run: the units of its nests, where its operands come from, in how many rounds cores exchange halos, its tiles
and where they lie, and which of the runs before it have to have ended when it begins. A kernel begins when the one
before has ended; inside a kernel a layer begins when the layer before it has ended, but where layers may overlap up to
a few are at work at once, as far as the buffers have room for all their tiles.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.requests import How, RunAsked, asked_of, capacities
from dsascape.scheduler.dsa.placing.free_space import Blocks, RunAtWork
from dsascape.scheduler.dsa.placing.needs import RunNeeds, needs_of
from dsascape.scheduler.dsa.schedule.limits import check_ddr, check_instructions
from dsascape.scheduler.dsa.schedule.schedule import (
    Execution,
    HaloExchange,
    LayerRun,
    Layout,
    PrefetchBuffers,
    Schedule,
    TensorSlice,
    TileAddresses,
)
from dsascape.scheduler.dsa.tiling.choice import TileChooser
from dsascape.scheduler.dsa.tiling.tiling import Route, Tiling
from dsascape.scheduler.dsa.view import GLOBAL, LOCAL, DsaView


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
    layout: Layout, costs: DsaCosts, policy: str, *, overlaps_layers: bool = False, paper_tiles: bool = False
) -> Schedule:
    """Return the schedule of ``layout`` with every run's execution decided, as `Decisions` does."""
    needs = needs_of(layout.runs, layout.slices, broadcasts=costs.view.broadcasts)
    decisions = Decisions(layout, costs, needs, overlaps_layers=overlaps_layers, paper_tiles=paper_tiles)
    return decisions.schedule(costs, policy)


class Decisions:
    """The executions of a layout's runs, which have these ``needs``, on machines that differ in DDR alone.

    ``overlaps_layers``: weights of later layers of a kernel are fetched, and their tiles computed, while earlier ones
    compute; queues are list-scheduled where any do so. ``paper_tiles``: tiles are those of GraphTurbo's text (section
    4.1), where these fit. Raises ``ScheduleError`` where a slice on the chip has no address.
    """

    def __init__(
        self, layout: Layout, costs: DsaCosts, needs: Sequence[RunNeeds], *, overlaps_layers: bool, paper_tiles: bool
    ) -> None:
        prefetch = prefetch_buffers(costs.view) if overlaps_layers else None
        self._layout = layout
        self._how = How(prefetch, overlaps_layers, paper_tiles)
        self._asked = asked_of(layout, costs, self._how, needs)
        self._tilings: list[Tiling] = []
        """For each request, on the machine before."""
        self._steps: list[_Step] = []
        """What was decided for that."""

    def schedule(self, costs: DsaCosts, policy: str) -> Schedule:
        """Return the schedule on the machine of ``costs``.

        Raises ``ScheduleError`` when a layer's smallest tile does not fit, DDR cannot hold the network, or lowering
        would take more instructions than are allowed.
        """
        layout, view, prefetch = self._layout, costs.view, self._how.prefetch
        check_ddr(layout, view)
        room = capacities(view, prefetch)
        tilings = self._asked.tilings(TileChooser(view, room[LOCAL], room[GLOBAL], costs.known))
        most_at_work = view.tuning.most_layers_at_work if self._how.overlaps_layers else 0
        self._steps = list(self._run_by_run(tilings, most_at_work))
        self._tilings = tilings
        executions = tuple([step.execution for step in self._steps])
        check_instructions(layout.runs, executions, view, layout.graph.name)
        overlaps = prefetch is not None or any(one.begins_after < number - 1 for number, one in enumerate(executions))
        return Schedule(
            layout.plan, layout.instances, layout.slices, costs.dtype, view.clusters, executions, prefetch,
            view.burst_bytes, "list scheduling" if overlaps else "by layer", policy,
        )  # fmt: skip

    def _run_by_run(self, tilings: Sequence[Tiling], most_at_work: int) -> Iterator["_Step"]:
        """Yield what is decided for run after run; where a run has the tiles that it had, beside the same, that stands.

        ``most_at_work``: how many runs before one may still be at work.
        """
        known, asked = iter(self._steps), iter(self._asked.runs)
        kept = [tiling == before for tiling, before in zip_longest(tilings, self._tilings)]
        number = 0
        for instance in self._layout.instances:
            at_work: tuple[RunAtWork, ...] = ()
            for run in instance.runs:
                one, step = next(asked), next(known, None)
                if step is None or not kept[one.request] or step.at_work != at_work:
                    tiling = tilings[one.request].with_names(tuple(one.routes))
                    fetched = fetched_at_once(run, self._layout.slices, one.routes, one.exchange)
                    step = _placed(number, run.writes, fetched, one, tiling, at_work, most_at_work)
                yield step
                at_work, number = step.left_at_work, number + 1


class _Step(NamedTuple):
    """What is decided for a run."""

    at_work: tuple[RunAtWork, ...]
    """The runs of its kernel before it that may not have ended yet."""
    execution: Execution
    left_at_work: tuple[RunAtWork, ...]
    """Those that may not have ended when the next one begins, itself among them."""


def _placed(
    number: int, writes: tuple[int, ...], fetched: set[int], asked: RunAsked, tiling: Tiling,
    at_work: tuple[RunAtWork, ...], most_at_work: int,
) -> _Step:  # fmt: skip
    """Return where the tiles of a run lie, and which of those ``at_work`` have to have ended before it begins.

    ``writes``: the slices that it writes; ``fetched``: those that it fetches in one go.
    """
    space, own, sizes = asked.space, asked.own, buffer_sizes(tiling, asked.exchange)
    ended = max(len(at_work) - most_at_work, 0)
    for place, one in enumerate(at_work):
        if fetched.intersection(one.writes):
            ended = max(ended, place + 1)
    blocks = space.beside(at_work[ended:], own, sizes)
    while blocks is None and ended < len(at_work):
        ended += 1
        blocks = space.beside(at_work[ended:], own, sizes)
    addresses = TileAddresses() if blocks is None else tile_addresses(tiling, blocks)
    begins_after = at_work[ended - 1].number if ended else (at_work[0].number if at_work else number) - 1
    execution = Execution(asked.routes, asked.units, tiling, asked.exchange, addresses, begins_after)
    taken = blocks or space.everything()
    if asked.freed:
        taken = {memory: (*taken[memory], *asked.freed.get(memory, ())) for memory in taken}
    return _Step(at_work, execution, (*at_work[ended:], RunAtWork(number, writes, taken)))


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
