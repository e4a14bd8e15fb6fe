"""A tile waits for exactly the producer tiles that write what it reads."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import LayerRun, make_policy
from dsascape.scheduler.dsa.deciding.execution import fetched_at_once
from dsascape.scheduler.dsa.lower.tile_waits import TileWaits, WrittenRun
from dsascape.scheduler.dsa.tiling.tiling import Tiling
from dsascape.workloads import Graph
from dsascape.workloads.loopnest import Box, intersect
from dsascape.workloads.regions import required_regions
from tests.graphs import machines, networks
from tests.scheduler.runs import drawn_schedule
from tests.tiers import examples

MOST_TILES = 10_000
"""More than the tiles of any layer run: instructions of run n are numbered from n times this."""


def cut(run: LayerRun, halvings: tuple[int, ...]) -> Tiling:
    """Return a tiling that halves each dimension of a core's part so many times; only its tiles matter here."""
    part = run.binding.part_extents([hi - lo for lo, hi in run.box])
    tile = tuple(max(-(-size // 2**times), 1) for size, times in zip(part, halvings, strict=True))
    return Tiling(
        part=part, tile=tile, order=run.layer.sink.order, depth=None, depth_extent=1, loads={},
        prefetched={}, staged={}, local_buffers=(), global_buffers=(), prefetch_bytes=(0, 0),
        store_burst_bytes=1, tile_bytes=0, estimate_ps=0.0,
    )  # fmt: skip


def tile_boxes(run: LayerRun, tiling: Tiling, core: int) -> list[Box]:
    """Return the box of every tile that a core computes, in order; empty ones included."""
    part = run.binding.part(run.box, core)
    boxes = []
    for position, extents, _, _ in tiling.steps():
        lows = [min(lo + at * size, hi) for (lo, hi), at, size in zip(part, position, tiling.tile, strict=True)]
        boxes.append(tuple((lo, min(lo + n, hi)) for lo, n, (_, hi) in zip(lows, extents, part, strict=True)))
    return boxes


def last_tile_read(writer: WrittenRun, core: int, boxes: list[Box], wanted: Box) -> int:
    """Return the last tile of ``boxes``, the writer's on ``core``, that holds some of ``wanted``.

    -1 where some of that lies on another core: it is exchanged, after all has been written.
    """
    if core >= writer.run.binding.cores:
        return -1
    own = writer.run.binding.part(writer.run.box, core)
    if intersect(wanted, own) != wanted:
        return -1
    return max(number for number, box in enumerate(boxes) if intersect(box, wanted) is not None)


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks(), spec=machines())
def test_a_tile_waits_for_every_tile_that_it_reads_on_its_core(
    data: st.DataObject, graph: Graph, spec: ClusteredDsa
) -> None:
    schedule = drawn_schedule(make_policy("graphturbo"), graph, spec)
    writer_of: dict[int, WrittenRun] = {}
    boxes_of: dict[int, dict[int, list[Box]]] = {}
    for number, run in enumerate(schedule.runs):
        tiling = cut(run, data.draw(st.tuples(*(st.integers(0, 2) for _ in run.box))))
        tiles = math.prod(tiling.counts)
        boxes_of[number] = {core: tile_boxes(run, tiling, core) for core in range(run.binding.cores)}
        reads = {read for held in run.reads.values() for read in held}
        waits = TileWaits(run, tiling, {read: writer_of[read] for read in reads}, schedule.slices)
        execution = schedule.executions[number]
        as_a_whole = fetched_at_once(run, schedule.slices, execution.routes, execution.exchange)
        waited_for: set[int] = set()
        for place in range(tiles):
            waited_for.update(waits.position(*each) for each in (waits.by_tile[place] if waits.by_tile else ()))
            for core, boxes in boxes_of[number].items():
                if any(lo == hi for lo, hi in boxes[place]):
                    continue
                needs = required_regions(graph, run.layer.ops, {run.layer.sink.name: boxes[place]})
                for name, read in ((name, read) for name, held in run.reads.items() for read in held):
                    if read in as_a_whole:  # whose writer has ended when this run begins
                        continue
                    writer, each = writer_of[read], schedule.slices[read]
                    wanted = intersect(needs[name], each.box) if name in needs else None
                    if wanted is not None and name == writer.run.layer.sink.name:
                        last = last_tile_read(writer, core, boxes_of[writer.number].get(core, []), wanted)
                        assert last < 0 or any(done in waited_for for done in writer.done[last:])
        done = list(range(number * MOST_TILES, number * MOST_TILES + tiles))
        opened = WrittenRun(number, run, tiling, done=done)
        writer_of.update(dict.fromkeys(run.writes, opened))
