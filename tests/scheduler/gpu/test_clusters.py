"""Blocks of a cluster read what they have in common from the L2 once; larger clusters never make a product slower."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.checked import checked_steps
from dsascape.scheduler.gpu.clusters import clustered
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import grid_of
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Bind
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.scheduler.gpu.running import costs_of, grid_in, planned


def product(rows: int, columns: int, depth: int) -> Graph:
    return single_operator(SingleOperator("p", "MatMul", ((rows, depth),), ((depth, columns),))).with_dtype("fp16")


def h100(cluster: int, **values: object) -> Gpu:
    """Return an H100 with so many blocks in a cluster, whose clock does not fall."""
    return with_values(load_hardware("h100", Gpu), {"sms.cluster": cluster, "power_limit": None, **values})


def whole_layer(graph: Graph) -> Layer:
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    return layer


KIB = 1024
TILES = GpuTiles((128, 128), (0, 1), (64, 32), 1, 32, 3, "tensor")
"""Tiles of a 512 x 512 product with a depth of 64: four by four blocks; operands are 16 KiB each, results 32 KiB."""


@pytest.mark.parametrize(
    ("cluster", "blocks", "moved"),
    [
        (1, (), 16 * (16 + 16 + 32) * KIB),
        (2, (1, 2), (8 * 16 + 16 * 16 + 16 * 32) * KIB),  # two blocks share the first operand
        (4, (2, 2), (8 * 16 + 8 * 16 + 16 * 32) * KIB),  # two by two: each operand is shared by two
        (8, (2, 4), (4 * 16 + 8 * 16 + 16 * 32) * KIB),  # the first by four, the second by two
    ],
)
def test_what_blocks_share_leaves_the_l2_once(cluster: int, blocks: tuple[int, ...], moved: int) -> None:
    graph = product(512, 512, 64)
    layer = whole_layer(graph)
    view = GpuView(h100(cluster), "fp16")
    tiles = clustered(layer, TILES, view)
    grid = grid_in(layer, tiles, view)

    assert tiles.cluster == blocks
    assert grid.l2_bytes == moved
    assert grid.sm_bytes == 16 * (16 + 16 + 32) * KIB  # every SM receives its own operands


def test_the_paths_of_sms_limit_what_clusters_spare() -> None:
    """With an L2 that is faster than all paths together, shared loads take as long as separate ones."""
    layer = whole_layer(product(512, 512, 64))
    view = GpuView(h100(8, **{"l2.bandwidth": "100000 GB/s"}), "fp16")
    grid = grid_in(layer, clustered(layer, TILES, view), view)

    assert grid.charged_l2_bytes(view) == grid.sm_bytes > grid.l2_bytes


@settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(sizes=st.tuples(*[st.sampled_from([64, 384, 1024, 2048, 4096])] * 3))
def test_larger_clusters_are_never_slower(sizes: tuple[int, int, int]) -> None:
    graph = product(*sizes)
    taken_s = [simulate(graph, h100(most), "fixed-pattern").record.latency_s for most in (1, 2, 4, 8)]

    assert all(later <= 1.02 * before for before, later in pairwise(taken_s)), taken_s


def test_a_large_product_is_limited_by_tensor_units_where_blocks_share_loads() -> None:
    alone, shared = (simulate(product(4096, 4096, 4096), h100(most), "fixed-pattern").record for most in (1, 2))

    assert max(alone.critical, key=lambda part: alone.critical[part]) == "l2"
    assert max(shared.critical, key=lambda part: shared.critical[part]) == "tensor"
    assert shared.latency_s < 0.9 * alone.latency_s


def test_lanes_and_kernels_of_several_contractions_have_no_clusters() -> None:
    fp32 = product(512, 512, 64).with_dtype("fp32")

    assert not any(kernel.shape.cluster for kernel in planned(costs_of(fp32, h100(8))).runs)


def test_clusters_are_steps_and_stand_in_the_printed_loops() -> None:
    graph = product(512, 512, 64)
    layer, view = whole_layer(graph), GpuView(h100(8), "fp16")
    tiles = clustered(layer, TILES, view)
    steps = steps_of(layer, tiles, 32, view.tensor)
    program = loop_program(NaiveProgram(layer), steps)

    assert "in clusters of 2 along m0 * 4 along n0" in str(program)
    checked = checked_steps("steps", layer, read_steps(steps_json(steps)), view)
    assert grid_of(layer, checked, view).shape.cluster == tiles.cluster == (2, 4)
    alone = tuple([replace(step, cluster=()) if isinstance(step, Bind) else step for step in steps])
    without = checked_steps("steps", layer, alone, view)
    moved = [grid_of(layer, each, view).l2_bytes for each in (checked, without)]
    assert moved == [(4 * 16 + 8 * 16 + 16 * 32) * KIB, 16 * (16 + 16 + 32) * KIB]


@pytest.mark.parametrize(("cluster", "says"), [
    ((2, 8), "its loop 1 has fewer than 8 blocks of a cluster"),
    ((4, 4), "a cluster has 16 blocks; the most are 8"),
    ((2,), "a cluster has blocks along 1 of 2 loops"),
    ((0, 2), "has 0; needs numbers from 1"),
])  # fmt: skip
def test_clusters_that_cannot_be_are_refused(cluster: tuple[int, ...], says: str) -> None:
    layer, view = whole_layer(product(512, 512, 64)), GpuView(h100(8), "fp16")
    steps = tuple([
        replace(step, cluster=cluster) if isinstance(step, Bind) and step.blocks else step
        for step in steps_of(layer, TILES, 32, view.tensor)
    ])  # fmt: skip
    with pytest.raises(ScheduleError, match=says):
        checked_steps("steps", layer, steps, view)


def test_clusters_are_written_read_back_and_checked() -> None:
    graph = product(4096, 4096, 512)
    costs = costs_of(graph, h100(2))
    schedule = planned(costs)
    written = schedule_json(schedule)

    assert "clusters of" in str(schedule)
    assert read_schedule(written, costs) == schedule
    with pytest.raises(ScheduleError, match="a cluster has 2 blocks; the most are 1"):
        read_schedule(written, costs_of(graph, h100(1)))
