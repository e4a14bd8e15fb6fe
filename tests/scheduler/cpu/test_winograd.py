"""Convolutions by Winograd's algorithm: chosen where they are faster, and recorded with the kernel."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import plan_from_groups
from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.fusion.plan import Group
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.cpu.convolutions import with_algorithms_that_pay
from dsascape.scheduler.cpu.cost.estimate import time_ps
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import works
from dsascape.scheduler.cpu.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.structure.chains import tile_grains
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.loops.steps import Unroll
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import written_out
from dsascape.workloads.winograd.operators import fits
from tests.graphs import Net
from tests.scheduler.cpu.running import tiles_of
from tests.tiers import examples

PHONE = load_hardware("kirin990", Cpu)


def network(side: int = 28, channels: int = 64, dtype: str = "fp32", **convolution: Any) -> Graph:
    """Return a pointwise convolution, and one of 3x3 behind it with an activation."""
    net = Net()
    before = net.relu(net.conv(net.input(1, 8, side, side), channels, 1))
    return net.graph(net.relu(net.conv(before, channels, **{"kernel": 3, **convolution})), dtype=dtype)


def costs_of(graph: Graph, dtype: str = "fp32", **tuning: Any) -> CpuCosts:
    return CpuCosts(CpuView(PHONE, CpuTuning(**{"threads": 1, **tuning})), Analysis(graph), dtype)


def schedule_of(graph: Graph, dtype: str = "fp32", **tuning: Any) -> CpuSchedule:
    return kernel_by_kernel(fixed_pattern_plan(graph), costs_of(graph, dtype, **tuning))


def whole_schedule_of(graph: Graph) -> CpuSchedule:
    """Return the schedule whose convolutions are computed tile by tile where they are not direct."""
    return kernel_by_kernel(fixed_pattern_plan(graph), costs_of(graph), whole=range(len(graph.ops)))


def sizes(schedule: CpuSchedule) -> list[int]:
    return [kernels[0].algorithm for kernels in schedule.kernels_of.values()]


def test_a_convolution_of_many_channels_is_one_kernel_of_transforms_and_products() -> None:
    schedule = whole_schedule_of(network())
    assert [kernel.algorithm for kernel in schedule.runs] == [0, 4]
    names = [part.sink.name.rpartition(":")[2] for part in parts_of(schedule.runs[1].layer)[:-1]]
    assert names == ["columns", "data", "products", "rows"]
    assert "Winograd F(4, 3)" in str(schedule.runs[1])


def test_or_it_is_three_that_go_over_the_whole_image() -> None:
    schedule = schedule_of(network())
    assert [kernel.algorithm for kernel in schedule.runs] == [0, 4, 4, 4]
    _, data, products, results = [kernel.layer for kernel in schedule.runs]
    assert [part.sink.name.rpartition(":")[2] for part in parts_of(data)] == ["columns", "data"]
    assert [products.sink.shape, products.whole_macs] == [(1, 7, 6, 6, 7, 64), 7 * 7 * 36 * 64 * 64]
    assert data.outputs == ("conv2:data",)
    assert results.outputs == schedule.plan.graph.ops[-1].outputs


def test_a_long_image_of_few_channels_goes_tile_by_tile_and_a_small_one_of_many_in_phases() -> None:
    kernels = [len(with_algorithms_that_pay(fixed_pattern_plan(graph), costs_of(graph)).runs)
               for graph in (network(112, 32), network(28, 256))]  # fmt: skip
    assert kernels == [2, 4]


def test_multiplications_of_channels_are_as_many_as_winograds_formula_says() -> None:
    graph = network(side=24, channels=16)
    direct = graph.ops[2].operations.macs
    for size in (2, 4, 6):
        out = written_out(Analysis(graph), algorithms=frozenset({(2, size)}))
        product = next(op for op in out.analysis.graph.ops if op.name.endswith(":products"))
        assert product.operations.macs * size**2 * 9 == direct * (size + 2) ** 2


def test_it_is_faster_and_never_slower_than_what_it_replaces() -> None:
    graph = network()
    best, direct = costs_of(graph), costs_of(graph, winograd=0)
    assert best.kernel_s([2, 3]) < 0.7 * direct.kernel_s([2, 3])
    assert best.kernel_s([0, 1]) == direct.kernel_s([0, 1])
    for side, channels in ((4, 8), (7, 32), (9, 3)):
        small = network(side, channels)
        assert costs_of(small).kernel_s([2]) <= costs_of(small, winograd=0).kernel_s([2])


@settings(max_examples=examples(20, few=4), deadline=None)
@given(
    side=st.sampled_from([7, 14, 20, 28]), channels=st.sampled_from([16, 32, 64]),
    depth=st.integers(1, 3), threads=st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_a_schedule_is_no_slower_than_with_each_way_everywhere(
    side: int, channels: int, depth: int, threads: int
) -> None:
    net = Net()
    name = net.relu(net.conv(net.input(1, 8, side, side), channels, 1))
    for _ in range(depth):
        name = net.relu(net.conv(name, channels, 3))
    graph = net.graph(name, dtype="fp32")
    plan, costs = fixed_pattern_plan(graph), costs_of(graph, threads=threads)
    every = range(len(plan.groups))

    def taken_ps(schedule: CpuSchedule) -> float:
        return sum([time_ps(work, costs.view) for work in works(schedule, costs.view)])

    best = taken_ps(with_algorithms_that_pay(plan, costs))
    assert best <= taken_ps(kernel_by_kernel(plan, costs))
    assert best <= taken_ps(kernel_by_kernel(plan, costs, whole=every))
    assert best <= taken_ps(kernel_by_kernel(plan, costs, direct=every))


def test_the_option_says_which_tiles_there_are() -> None:
    assert [sizes(schedule_of(network(), winograd=most))[1] for most in (0, 2)] == [0, 2]


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8"])
def test_numbers_of_few_digits_are_not_put_into_large_tiles(dtype: str) -> None:
    costs = costs_of(network(dtype="fp16" if dtype == "int8" else dtype), dtype)
    simd = PHONE.simd.model_copy(update={"lanes": {**PHONE.simd.lanes, "bf16": 8}})
    view = replace(costs.view, spec=PHONE.model_copy(update={"simd": simd}))
    chosen = sizes(kernel_by_kernel(fixed_pattern_plan(costs.analysis.graph), CpuCosts(view, costs.analysis, dtype)))
    assert chosen[1] in ((0, 2) if dtype == "fp16" else (0,))


@pytest.mark.parametrize(
    "convolution", [{"stride": 2}, {"kernel": 5}, {"kernel": 1}, {"groups": 2}, {"groups": 64}], ids=str
)
def test_other_convolutions_are_direct(convolution: dict[str, Any]) -> None:
    graph = network(**convolution)
    assert not fits(graph.ops[2], graph.tensors)
    assert sizes(schedule_of(graph)) == [0, 0]


def test_a_kernel_of_several_convolutions_is_direct() -> None:
    graph = network()
    whole = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    assert sizes(kernel_by_kernel(whole, costs_of(graph))) == [0]


def test_tiles_are_multiples_of_those_of_the_algorithm() -> None:
    kernel = whole_schedule_of(network()).runs[1]
    assert tile_grains(kernel.layer) == (1, 1, 4, 4)
    shape, tiles = kernel.layer.sink.shape, tiles_of(kernel, costs_of(network()))
    assert all(
        part % grain == 0 or part >= size
        for part, grain, size in zip(tiles.whole_registers, tile_grains(kernel.layer), shape, strict=True)
    )


def test_a_schedule_with_it_is_read_back_as_it_was() -> None:
    graph = network()
    schedule = schedule_of(graph)
    data = json.loads(json.dumps(schedule_json(schedule)))
    assert [kernel["winograd"] for kernel in data["kernels"]] == [0, 4, 4, 4]
    again = read_schedule(data, costs_of(graph))
    assert str(again) == str(schedule)
    assert works(again, costs_of(graph).view) == works(schedule, costs_of(graph).view)


@pytest.mark.parametrize(
    ("kernel", "size", "says"),
    [
        (1, 3, r"kernels.1 .*winograd: has 3; numbers of fp32 need 0 or 2 or 4 or 6"),
        (0, 4, r"kernels.0 .*winograd: has 4; needs 0: its group has no convolution of 3x3"),
    ],
)
def test_sizes_that_cannot_be_are_refused(kernel: int, size: int, says: str) -> None:
    graph = network()
    data = schedule_json(schedule_of(graph))
    data["kernels"][kernel]["winograd"] = size
    with pytest.raises(ScheduleError, match=says):
        read_schedule(data, costs_of(graph))


def test_its_steps_may_be_edited_in_a_file() -> None:
    graph = network()
    data = schedule_json(schedule_of(graph))
    data["kernels"][1]["steps"] = [step for step in data["kernels"][1]["steps"] if step["step"] != "Unroll"]

    (_, kernel, *_) = read_schedule(data, costs_of(graph)).runs
    assert kernel.algorithm == 4
    assert not any(isinstance(step, Unroll) for step in kernel.steps)


