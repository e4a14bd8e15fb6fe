"""A tile waits for the tiles that write what it reads, and no layer lies on what others still use."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.regions import required_regions
from hw_models import ClusteredDsa
from scheduler import LayerRun, lower, make_policy
from scheduler.allocation import Block
from scheduler.occupancy import Occupancy, OpenRun
from scheduler.overlap import TileWaits
from scheduler.tiling import Tiling
from tests.graphs import Net, machine, machines, networks
from workloads import Graph
from workloads.loopnest import Box, intersect


def cut(run: LayerRun, halvings: tuple[int, ...]) -> Tiling:
    """Return a tiling that halves each dimension of a core's part so many times; only its tiles matter here."""
    part = run.binding.part_extents([hi - lo for lo, hi in run.box])
    tile = tuple(max(-(-size // 2**times), 1) for size, times in zip(part, halvings, strict=True))
    return Tiling(
        part=part, tile=tile, order=run.layer.sink.order, depth=None, depth_extent=1, loads={}, ahead={}, staged={},
        buffers=(), staging=(), window_bytes=(0, 0), store_burst_bytes=1, tile_bytes=0, estimate_ps=0.0,
    )  # fmt: skip


def tile_boxes(run: LayerRun, tiling: Tiling, core: int) -> list[Box]:
    """Return the box of every tile that a core computes, in order; empty ones included."""
    part = run.binding.part(run.box, core)
    boxes = []
    for position, extents, _, _ in tiling.steps():
        lows = [min(lo + at * size, hi) for (lo, hi), at, size in zip(part, position, tiling.tile, strict=True)]
        boxes.append(tuple((lo, min(lo + n, hi)) for lo, n, (_, hi) in zip(lows, extents, part, strict=True)))
    return boxes


@settings(max_examples=60)
@given(data=st.data(), graph=networks(), spec=machines())
def test_a_tile_waits_for_every_tile_that_it_reads_on_its_core(
    data: st.DataObject, graph: Graph, spec: ClusteredDsa
) -> None:
    schedule = make_policy("graphturbo").schedule(graph, spec, "fp16")
    writer_of = {piece: run for run in schedule.runs for piece in run.writes}
    tilings: dict[int, Tiling] = {}

    def tiling_of(run: LayerRun) -> Tiling:
        if id(run) not in tilings:
            times = data.draw(st.tuples(*(st.integers(0, 2) for _ in run.box)))
            tilings[id(run)] = cut(run, times)
        return tilings[id(run)]

    for run in schedule.runs:
        tiling = tiling_of(run)
        writers = {}
        for piece in (p for held in run.reads.values() for p in held):
            writer = writer_of[piece]
            count = math.prod(tiling_of(writer).counts)
            writers[piece] = OpenRun(writer, tiling_of(writer), {}, done=list(range(count)))
        waits = TileWaits(run, tiling, writers, schedule.pieces)
        reached = dict.fromkeys(writers, -1)
        for number, (position, extents, _, _) in enumerate(tiling.steps()):
            instructions = waits.of(position, extents)
            for piece in writers:
                reached[piece] = max([reached[piece], *instructions])
            for core, (name, held) in itertools.product(range(run.binding.cores), run.reads.items()):
                box = tile_boxes(run, tiling, core)[number]
                needs = required_regions(graph, run.layer.ops, {run.layer.sink.name: box}) if all(
                    lo < hi for lo, hi in box) else {}  # fmt: skip
                for piece in held:
                    wanted = intersect(needs[name], schedule.pieces[piece].box) if name in needs else None
                    writer = writer_of[piece]
                    own = writer.binding.part(writer.box, core) if core < writer.binding.cores else None
                    if wanted is None or own is None or schedule.pieces[piece].tensor != writer.layer.sink.name:
                        continue
                    if intersect(wanted, own) != wanted:
                        continue  # some of it lies on another core: it is exchanged, after all has been written
                    boxes = tile_boxes(writer, tiling_of(writer), core)
                    last = max(n for n, written in enumerate(boxes) if intersect(written, wanted) is not None)
                    assert last <= reached[piece]


def opened(block: Block) -> OpenRun:
    schedule = make_policy("unfused").schedule(two_layers(), machine(), "fp16")
    run = schedule.runs[0]
    return OpenRun(run, cut(run, (0,) * len(run.box)), {"local_buffer": [block], "global_buffer": []})


def two_layers() -> Graph:
    net = Net("two")
    return net.graph(net.relu(net.conv(net.input(4, 4, 8, 8), 4, 1)))


class TestOccupancy:
    def test_a_new_layers_buffers_lie_beside_those_of_open_ones(self) -> None:
        occupancy = Occupancy({"local_buffer": 100, "global_buffer": 0})
        sizes = {"local_buffer": [30, 20], "global_buffer": []}
        nothing: dict[str, list[Block]] = {"local_buffer": [], "global_buffer": []}

        found = occupancy.beside([opened(Block(0, 50))], nothing, sizes)

        assert found is not None
        assert sorted((b.address, b.size_bytes) for b in found["local_buffer"]) == [(50, 30), (80, 20)]
        assert occupancy.beside([opened(Block(0, 51))], nothing, sizes) is None
        assert occupancy.beside([], nothing, sizes) is not None

    def test_its_own_pieces_may_not_lie_on_what_open_ones_use(self) -> None:
        occupancy = Occupancy({"local_buffer": 100, "global_buffer": 0})
        own: dict[str, list[Block]] = {"local_buffer": [Block(40, 10)], "global_buffer": []}
        none: dict[str, list[int]] = {"local_buffer": [], "global_buffer": []}

        assert occupancy.beside([opened(Block(0, 40))], own, none) is not None
        assert occupancy.beside([opened(Block(0, 41))], own, none) is None


def test_units_of_different_kinds_work_on_different_layers() -> None:
    """A product and a pooling of it as layers of one kernel: pooling begins before the product ends."""
    net = Net("across")
    x = net.conv(net.conv(net.input(4, 8, 32, 32), 16, 1), 16, 1)
    y = net.pool(x, 2, 2)
    graph = net.graph(net.conv(y, 16, 1))
    spec = machine(local_buffer={"capacity": "1 MiB", "bandwidth": "128 GB/s", "weight_window": 0.2})

    def overlapped(*, instruction_scheduling: bool) -> bool:
        policy = make_policy("graphturbo", {"instruction_scheduling": instruction_scheduling})
        program = lower(policy.schedule(graph, spec, "fp16"), spec, 1)
        first = [n for n, i in enumerate(program.instructions) if i.label == x and i.unit == "matrix"]
        follower = [n for n, i in enumerate(program.instructions) if i.label == y and i.unit == "vector"]
        return min(follower) < max(first)

    assert overlapped(instruction_scheduling=True)
    assert not overlapped(instruction_scheduling=False)
