"""Execution decisions for every layer run of a layout, made run by run, in order, before lowering.

For each run: the units of its nests, the routes of its operands, the rounds of its halo exchange, its tiles and their
addresses, and which of the runs before it must have ended when it begins. A kernel begins when the one before has
ended; inside a kernel a layer begins when the layer before it has ended, but with overlapping layers a few may execute
at once, as far as the buffers hold the tiles of all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.requests import (
    ExecutionOptions,
    RunRequest,
    TileRequests,
    capacities,
    requests_of,
)
from dsascape.scheduler.dsa.placing.exchanges import from_clusters_bytes
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
from dsascape.workloads.memo import Memos, memoized

_MOST_STEPS = 1_000
"""Size of the cache of decisions per prepared layout, in layer runs."""


def prefetch_buffers(view: DsaView) -> PrefetchBuffers | None:
    """Return the prefetch buffers for weights; None on a machine without a global buffer.

    None also where the local one is so small that start-up dominates transfers of half its size.
    """
    tuning = view.tuning
    local = int(view.weight_window_bytes * tuning.prefetch_share_of_weight_window)
    if not view.global_buffer_bytes or local < 2 * view.path_startup_bytes:
        return None
    further = int(view.global_buffer_bytes * tuning.prefetch_share_of_global_buffer)
    return PrefetchBuffers(local, further, view.local_buffer_bytes - local, view.global_buffer_bytes - further)


@dataclass(frozen=True)
class PreparedLayout:
    """A layout with all that is decided before its tiles are; machines that differ in DDR alone share it."""

    layout: Layout
    options: ExecutionOptions
    requests: TileRequests
    memos: Memos = field(default_factory=dict, compare=False, repr=False)
    memo_key = memo_identity = None
    """All decisions that are stored here belong to the one layout."""


def prepare(
    layout: Layout, costs: DsaCosts, needs: Sequence[RunNeeds], *, overlaps_layers: bool, paper_tiles: bool
) -> PreparedLayout:
    """Return a layout with its tile requests; depends on everything about a machine but its DDR and DMA.

    ``needs``: halos and routes of each run. ``overlaps_layers``: weights of later layers of a kernel are prefetched,
    and their tiles computed, while earlier ones compute; queues are list-scheduled where any do so. ``paper_tiles``:
    tiles are those of GraphTurbo's text (section 4.1), where these fit. Raises ``ScheduleError`` if an on-chip slice
    has no address.
    """
    prefetch = prefetch_buffers(costs.view) if overlaps_layers else None
    options = ExecutionOptions(prefetch, overlaps_layers, paper_tiles)
    return PreparedLayout(layout, options, requests_of(layout, costs, options, needs))


def decide(
    layout: Layout, costs: DsaCosts, policy: str, *, overlaps_layers: bool = False, paper_tiles: bool = False
) -> Schedule:
    """Return the schedule of ``layout`` with the execution of every run decided; raises what its two steps raise."""
    view = costs.view
    needs = needs_of(layout.runs, layout.slices, broadcasts=view.broadcasts, clusters=view.clusters)
    prepared = prepare(layout, costs, needs, overlaps_layers=overlaps_layers, paper_tiles=paper_tiles)
    return execute(prepared, costs, policy)


def execute(prepared: PreparedLayout, costs: DsaCosts, policy: str) -> Schedule:
    """Return the schedule of a prepared layout on the machine of ``costs``, with the execution of every run.

    Raises ``ScheduleError`` if a layer's smallest tile does not fit, DDR cannot hold the network, or the program
    would exceed ``tuning.most_instructions``.
    """
    layout, view, prefetch = prepared.layout, costs.view, prepared.options.prefetch
    check_ddr(layout, view)
    room = capacities(view, prefetch)
    tilings = prepared.requests.tilings(TileChooser(view, room[LOCAL], room[GLOBAL], costs.tiling_cache))
    most_at_work = view.tuning.most_layers_at_work if prepared.options.overlaps_layers else 0
    executions = tuple(_executions(prepared, tilings, most_at_work))
    if view.divides_kernels:
        both = zip(layout.runs, executions, strict=True)
        read_bytes = [(each, from_clusters_bytes(run, layout.slices, view.clusters)) for run, each in both]
        executions = tuple([replace(each, from_clusters_bytes=size) for each, size in read_bytes])
    check_instructions(layout.runs, executions, view, layout.graph.name)
    pins = () if costs.pins is None else costs.pins.applied(run.layer for run in layout.runs)
    overlaps = prefetch is not None or any(one.begins_after < number - 1 for number, one in enumerate(executions))
    return Schedule(
        layout.plan, layout.instances, layout.slices, costs.dtype, view.clusters, executions, prefetch,
        view.burst_bytes, "list scheduling" if overlaps else "by layer", policy,
        "kernels" if view.divides_kernels else "batch", pins,
    )  # fmt: skip


def _executions(prepared: PreparedLayout, tilings: Sequence[Tiling], most_at_work: int) -> Iterator[Execution]:
    """Yield the execution of each run, given the tiling of every request.

    ``most_at_work``: maximum number of earlier runs that may still be executing.
    """
    number = 0
    for instance in prepared.layout.instances:
        at_work: tuple[RunAtWork, ...] = ()
        for _ in instance.runs:
            tiling = tilings[prepared.requests.runs[number].request]
            step = _placed_run(prepared, number, tiling, at_work, most_at_work)
            yield step.execution
            at_work, number = step.left_at_work, number + 1


class _Step(NamedTuple):
    """Decisions about one run."""

    execution: Execution
    left_at_work: tuple[RunAtWork, ...]
    """Runs that may still be executing when the next one begins, itself included."""


@memoized(most=_MOST_STEPS)
def _placed_run(
    prepared: PreparedLayout, number: int, tiling: Tiling, at_work: tuple[RunAtWork, ...], most_at_work: int
) -> _Step:
    """Return the decisions about run ``number``, given the tiling of its request and the runs ``at_work``."""
    run, one = prepared.layout.runs[number], prepared.requests.runs[number]
    fetched = fetched_at_once(run, prepared.layout.slices, one.routes, one.exchange)
    return _placed(number, run.writes, fetched, one, tiling.with_names(tuple(one.routes)), at_work, most_at_work)


def _placed(
    number: int, writes: tuple[int, ...], fetched: set[int], run_request: RunRequest, tiling: Tiling,
    at_work: tuple[RunAtWork, ...], most_at_work: int,
) -> _Step:  # fmt: skip
    """Return the addresses of a run's tiles, and which of the runs ``at_work`` must have ended before it begins.

    ``writes``: the slices that it writes; ``fetched``: those that it fetches as a whole.
    """
    space, own, sizes = run_request.space, run_request.own, buffer_sizes(tiling, run_request.exchange)
    ended = max(len(at_work) - most_at_work, 0)
    for place, one in enumerate(at_work):
        if fetched.intersection(one.writes):
            ended = max(ended, place + 1)
    blocks = space.allocate(at_work[ended:], own, sizes)
    while blocks is None and ended < len(at_work):
        ended += 1
        blocks = space.allocate(at_work[ended:], own, sizes)
    addresses = TileAddresses() if blocks is None else tile_addresses(tiling, blocks)
    begins_after = at_work[ended - 1].number if ended else (at_work[0].number if at_work else number) - 1
    execution = Execution(run_request.routes, run_request.units, tiling, run_request.exchange, addresses, begins_after)
    taken = blocks or space.everything()
    if run_request.freed:
        taken = {memory: (*taken[memory], *run_request.freed.get(memory, ())) for memory in taken}
    return _Step(execution, (*at_work[ended:], RunAtWork(number, writes, taken)))


def fetched_at_once(
    run: LayerRun, slices: Sequence[TensorSlice], streamed: Mapping[str, Route], exchange: HaloExchange
) -> set[int]:
    """Return the slices that a run fetches as a whole, streamed or exchanged: their writers must have ended."""
    return {
        number
        for name, held in run.reads.items()
        for number in held
        if name in streamed or (exchange.core_bytes and slices[number].memory == LOCAL)
    }


def buffer_sizes(tiling: Tiling, exchange: HaloExchange) -> dict[str, tuple[int, ...]]:
    """Return the bytes of each of a run's buffers by memory, those of its halo exchange last.

    Tiles have buffers in the local and the global buffer alone.
    """
    return {
        LOCAL: (*tiling.local_buffers, exchange.core_bytes),
        GLOBAL: (*tiling.global_buffers, exchange.staged_bytes),
    }


def tile_addresses(tiling: Tiling, blocks: Blocks) -> TileAddresses:
    """Return the addresses of a run's buffers from their ``blocks``, which are in the order of `buffer_sizes`."""
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
