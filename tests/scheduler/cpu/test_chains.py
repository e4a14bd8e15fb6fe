"""Kernels with several anchors on CPUs: a tile has what it needs of them, and what is computed again is counted."""

import itertools
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import Group
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.cost.work import kernel_work
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import works
from dsascape.scheduler.cpu.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.scheduler.cpu.structure.chains import made_in_front
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import link_read, parts_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.hw_models.cpu.cpus import cpu
from tests.tiers import examples

SINGLE = UpstreamTiles((0, 2, 3, 1), (1, 1, 1, 1), 1)


def whole(graph: Graph) -> Layer:
    return Layer(graph, tuple(range(len(graph.ops))), Analysis(graph))


def chain(size: int = 8, kernel: int = 3, stride: int = 1, *, depthwise: bool = False) -> Graph:
    net = Net("chain")
    middle = net.relu(net.conv(net.input(1, 4, size, size), 6, 1))
    behind = net.depthwise(middle, kernel, stride) if depthwise else net.conv(middle, 8, kernel, stride)
    return net.graph(net.relu(behind), dtype="fp32")


def test_a_kernel_is_cut_in_front_of_each_anchor_with_what_follows_the_one_before() -> None:
    net = Net()
    x = net.input(1, 8, 9, 7)
    first = net.relu(net.add(net.conv(net.relu(x), 8, 1), x))
    graph = net.graph(net.relu(net.conv(net.relu(net.depthwise(first)), 12, 1)), dtype="fp32")

    parts = [[graph.ops[op].kind for op in part.ops] for part in parts_of(whole(graph))]

    assert parts == [["Relu", "Conv", "Add", "Relu"], ["Conv", "Relu"], ["Conv", "Relu"]]


def test_a_kernel_whose_middle_others_need_is_not_cut() -> None:
    net = Net()
    middle = net.relu(net.conv(net.input(1, 8, 9, 7), 8, 1))
    assert parts_of(whole(net.graph(net.add(net.conv(middle, 8), middle), dtype="fp32"))) == ()

    net = Net()
    middle = net.relu(net.conv(net.input(1, 8, 9, 7), 8, 1))
    assert parts_of(whole(net.graph(net.conv(middle, 8), middle, dtype="fp32"))) == ()


def test_tiles_behind_a_window_need_its_border_and_one_for_all_needs_none() -> None:
    layer = whole(chain(8, kernel=3))
    rows = LoopTiles((1, 8, 2, 8), (0, 2, 3, 1), 0, (1, 8, 1, 8), 1, None, (SINGLE,))
    (made,) = made_in_front(layer, rows)

    # 4 tiles of 2 rows need 4 rows each, the first from row -1 on; along the other dimensions there is one tile
    assert made.extents == (1, 6, 4, 8)
    assert (made.spans[2].first, made.spans[2].steps) == (-1, ((2, 2),))
    assert (made.loops, made.times) == (2, 4)


def test_what_loops_further_in_do_not_choose_is_computed_once_for_all_of_them() -> None:
    layer = whole(chain(8, kernel=1))
    inside = LoopTiles((1, 4, 2, 8), (0, 2, 3, 1), 0, (1, 4, 1, 8), 1, None, (SINGLE,))
    outside = LoopTiles((1, 4, 2, 8), (1, 0, 2, 3), 0, (1, 4, 1, 8), 1, None, (SINGLE,))

    assert [made.times for made in made_in_front(layer, inside)] == [4]
    assert [made.times for made in made_in_front(layer, outside)] == [2 * 4]


@given(
    size=st.integers(3, 9), kernel=st.sampled_from([1, 3]), stride=st.integers(1, 2), depthwise=st.booleans(),
    tile=st.tuples(st.integers(1, 8), st.integers(1, 9), st.integers(1, 9)),
)  # fmt: skip
@settings(deadline=None, max_examples=examples(60))
def test_boxes_hold_exactly_what_tiles_read(
    size: int, kernel: int, stride: int, depthwise: bool, tile: tuple[int, int, int]
) -> None:
    """Against every single iteration of the second anchor."""
    layer = whole(chain(size, kernel, stride, depthwise=depthwise))
    shape = layer.sink.shape
    cut = tuple(map(min, (1, *tile), shape))
    (made,) = made_in_front(layer, LoopTiles(cut, (0, 2, 3, 1), 0, (1, 1, 1, 1), 1, None, (SINGLE,)))
    anchor = anchored_nest(parts_of(layer)[-1])
    assert anchor is not None
    read = link_read(anchor, made.layer.sink.name)
    needed: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for loops in itertools.product(*(range(loop.extent) for loop in anchor.loops)):
        at = [tuple(index.span([(each, each + 1) for each in loops])[0] for index in indices)
              for indices in (anchor.write.indices, read.indices)]  # fmt: skip
        if all(0 <= place < extent for place, extent in zip(at[1], read.shape, strict=True)):
            number = tuple(place // part for place, part in zip(at[0], cut, strict=True))
            needed.setdefault(number, set()).add(at[1])

    for number, elements in needed.items():
        for dim, span in enumerate(made.spans):
            first = span.first + sum(number[of] * step for of, step in span.steps)
            reached = sorted(element[dim] for element in elements)
            assert reached[0] >= first
            assert reached[-1] < first + span.extent
            is_whole = all((place + 1) * part <= extent for place, part, extent in zip(number, cut, shape, strict=True))
            clear_of_borders = first >= 0 and first + span.extent <= read.shape[dim]
            if is_whole and clear_of_borders:
                assert (reached[0], reached[-1] + 1) == (first, first + span.extent)


def test_work_counts_the_first_anchor_as_often_as_it_is_computed() -> None:
    graph = chain(8, kernel=3)
    view = CpuView(cpu(), CpuTuning())
    in_front = UpstreamTiles((0, 2, 3, 1), (1, 2, 1, 2), 1)

    def macs(rows: int) -> int:
        tiles = LoopTiles((1, 8, rows, 8), (0, 2, 3, 1), 0, (1, 4, 1, 4), 1, None, (in_front,))
        work = kernel_work(kernel_of(whole(graph), tiles, 1, "fp32", view))
        return sum(each.count * each.payload.macs for each in work.chunks)

    behind = 8 * 8 * 8 * 6 * 9
    assert macs(8) == behind + 8 * 8 * 6 * 4
    assert macs(2) == behind + (3 + 4 + 4 + 3) * 8 * 6 * 4  # rows with a border, which is not computed


def steps_of(graph: Graph, rows: int, **changes: object) -> list[dict[str, int]]:
    """Return the bytes that each part moves at each level, for tiles of so many rows."""
    in_front = (UpstreamTiles((0, 2, 3, 1), (1, 8, 1, 4), 1),)
    tiles = LoopTiles((1, 8, rows, 16), (0, 2, 3, 1), 0, (1, 8, 1, 4), 1, None, in_front)
    work = kernel_work(kernel_of(whole(graph), tiles, 1, "fp32", CpuView(cpu(**changes), CpuTuning())))
    (done,) = work.chunks
    assert sum([step.macs for step in done.parts]) == done.payload.macs
    for name, size in done.payload.traffic:
        assert size == sum([dict(step.traffic)[name] for step in done.parts])
    return [dict(step.traffic) for step in done.parts]


def test_what_a_part_hands_on_passes_a_cache_that_a_tile_does_not_fit() -> None:
    net = Net()
    graph = net.graph(net.conv(net.relu(net.conv(net.input(1, 8, 16, 16), 64, 1)), 8, 1), dtype="fp32")
    data, weights, between = 8 * 16 * 16 * 4, 8 * 64 * 4, 64 * 16 * 16 * 4

    # whole: 64 KiB between the two, beside a first cache of 32: written back by the one, fetched by the other
    # but for the few lines that its approximate replacement keeps
    front, behind = [step["l2"] for step in steps_of(graph, 16)]
    assert front == data + weights + between
    assert behind == pytest.approx(weights + between + data, rel=0.2)
    # rows of 4 KiB stay: each operand comes in once, the result goes out, and one row when all is done
    assert [step["l2"] for step in steps_of(graph, 1)] == [data + weights + 64 * 16 * 4, weights + data]


def test_what_is_handed_on_is_fetched_to_be_overwritten_where_stores_fetch_lines() -> None:
    net = Net()
    graph = net.graph(net.conv(net.relu(net.conv(net.input(1, 8, 16, 16), 64, 1)), 8, 1), dtype="fp32")
    without, fetching = [steps_of(graph, 16, write_allocate=each)[0]["l2"] for each in (False, True)]

    assert fetching - without == 64 * 16 * 16 * 4


def test_a_buffer_that_the_run_before_has_left_in_a_cache_is_found_there() -> None:
    graph = chain(16, depthwise=True)
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])

    def dram_bytes(*, warm: bool) -> list[int]:
        view = CpuView(cpu(write_allocate=True), CpuTuning(threads=1, warm_caches=warm))
        schedule = kernel_by_kernel(plan, CpuCosts(view, Analysis(graph), "fp32"))
        (work,) = works(schedule, view)
        (kernel,) = schedule.runs
        assert kernel_of(kernel.layer, kernel.steps, 1, "fp32", view).traffic.scratch_bytes > 0
        return [dict(step.traffic)["dram"] for step in work.chunks[0].parts]

    # the third cache holds all of it many times: nothing but a rounding comes from further out
    assert sum(dram_bytes(warm=True)) < sum(dram_bytes(warm=False)) / 20


def test_an_operand_of_both_parts_is_fetched_by_the_first() -> None:
    net = Net()
    x = net.input(1, 32, 32)
    graph = net.graph(net.matmul(net.relu(net.matmul(x, x)), x), dtype="fp32")
    tiles = LoopTiles((1, 32, 32), (0, 1, 2), 0, (1, 4, 4), 2, None, (UpstreamTiles((0, 1, 2), (1, 4, 4), 2),))
    (done,) = kernel_work(kernel_of(whole(graph), tiles, 1, "fp32", CpuView(cpu(), CpuTuning()))).chunks
    data = 32 * 32 * 4

    # all of it fits the first cache; the buffer and the result leave it at the end
    assert [dict(step.traffic)["l2"] for step in done.parts] == [data + data, data]


def test_a_part_waits_for_the_one_in_front_of_it() -> None:
    graph = chain(16, depthwise=True)
    view = CpuView(cpu(), CpuTuning())
    costs = CpuCosts(view, Analysis(graph), "fp32")
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    (kernel,) = kernel_by_kernel(plan, costs).runs
    own = kernel_of(kernel.layer, kernel.steps, 1, "fp32", view)
    pace = view.paces[0]

    apart = [pace.steps_ps([step])[1] for step in own.steps(pace, 1)]

    assert len(apart) == len(own.codes)
    assert pace.steps_ps(own.steps(pace, 1))[1] == sum(apart)


def test_schedules_with_several_anchors_say_so_and_survive_writing_and_reading() -> None:
    graph = chain(16, depthwise=True)
    costs = CpuCosts(CpuView(cpu(), CpuTuning()), Analysis(graph), "fp32")
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    schedule = kernel_by_kernel(plan, costs)

    again = read_schedule(json.loads(json.dumps(schedule_json(schedule))), costs)

    (kernel,) = schedule.runs
    assert len(costs.tiling_of(kernel.layer).tiles.upstream) == 1
    assert (str(again), again.runs[0].steps) == (str(schedule), kernel.steps)


@given(size=st.integers(4, 40), depthwise=st.booleans(), stride=st.integers(1, 2))
@settings(deadline=None, max_examples=examples(15))
def test_one_kernel_never_moves_less_than_comes_in_and_goes_out(size: int, depthwise: bool, stride: int) -> None:
    graph = chain(size, 3, stride, depthwise=depthwise)
    costs = CpuCosts(CpuView(cpu(), CpuTuning()), Analysis(graph), "fp32")
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    (kernel,) = kernel_by_kernel(plan, costs).runs
    work = kernel_work(kernel_of(kernel.layer, kernel.steps, kernel.threads, "fp32", costs.view))
    outside = [*kernel.layer.inputs, *kernel.layer.outputs]
    moved = sum(each.count * dict(each.payload.traffic)["dram"] for each in work.chunks)

    assert moved >= sum(math.prod(graph.tensors[name].shape) * 4 for name in outside) * 0.9
