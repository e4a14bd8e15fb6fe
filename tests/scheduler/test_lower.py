"""A program spends time, traffic and energy on what the schedule says, and on nothing else."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fusion.regions import required_regions
from hw_models import Buffer, ClusteredDsa, Launch, Transfer, VectorCompute, simulate
from scheduler import LayerRun, Schedule, ScheduleError, TilingCache, lower, make_policy, policy_types
from tests.graphs import Net, machine
from workloads import Graph
from workloads.loopnest import box_volume, intersect


def indivisible() -> Graph:
    """Return a pointwise convolution whose output no two cores can share in equal parts."""
    net = Net("indivisible")
    return net.graph(net.conv(net.input(1, 5, 7, 7), 5, 1))


def two_convolutions(size: int) -> Graph:
    net = Net("two")
    return net.graph(net.conv(net.conv(net.input(1, 4, size, size), 4), 4))


def channel(startup: str) -> Mapping[str, str]:
    return {"bandwidth": "16 GB/s", "startup": startup}


class TestCoresWithoutAPart:
    @pytest.mark.parametrize("cores", [2, 4, 8])
    def test_draw_no_energy(self, cores: int) -> None:
        schedules = {
            n: make_policy("unfused").schedule(indivisible(), machine(cores_per_cluster=n), "fp16") for n in (1, cores)
        }
        energy = {}
        for count, schedule in schedules.items():
            spec = machine(cores_per_cluster=count)
            assert schedule.instances[0].runs[0].binding.cores == 1
            energy[count] = simulate(lower(schedule, spec, 1), spec).energy_pj

        assert energy[cores]["macs"] == energy[1]["macs"]
        assert energy[cores]["local_buffer"] == energy[1]["local_buffer"]

    @pytest.mark.parametrize("cores", [2, 4, 8])
    def test_move_no_bytes(self, cores: int) -> None:
        traffic = {}
        for count in (1, cores):
            spec = machine(cores_per_cluster=count)
            schedule = make_policy("unfused").schedule(indivisible(), spec, "fp16")
            traffic[count] = dict(simulate(lower(schedule, spec, 1), spec).traffic_bytes)

        assert traffic[cores] == traffic[1]


def test_a_long_dma_start_up_makes_no_network_too_large() -> None:
    slow = {"load": channel("5 us"), "store": channel("5 us")}
    spec = machine(dma=slow, global_buffer={"capacity": "64 KiB", "bandwidth": "64 GB/s"})
    schedule = make_policy("unfused").schedule(indivisible(), spec, "fp16")

    assert simulate(lower(schedule, spec, 1), spec).makespan_ps > 0


def exchanged_bytes(schedule: Schedule, run: LayerRun) -> int:
    """Return the most bytes that any core lacks of the run's inputs in the local buffers, counted for every core."""
    most = 0
    for core in range(run.binding.cores):
        part = {run.layer.sink.name: run.binding.part(run.box, core)}
        needs = required_regions(schedule.graph, run.layer.ops, part)
        lacking = 0
        for name, held in run.reads.items():
            for piece in (schedule.pieces[number] for number in held):
                wanted = intersect(needs[name], piece.box)
                mine = intersect(needs[name], piece.binding.part(piece.box, core))
                if wanted is not None and piece.scope == "local_buffer":
                    lacking += box_volume(wanted) - (0 if mine is None else box_volume(mine))
        most = max(most, lacking * 2)
    return most


@pytest.mark.parametrize(("cores", "size", "factors"), [(4, 8, (4, 1)), (9, 15, (3, 3)), (16, 28, (4, 4))])
def test_a_core_fetches_the_halo_that_its_neighbours_hold(cores: int, size: int, factors: tuple[int, int]) -> None:
    spec = machine(cores_per_cluster=cores)
    schedule = make_policy("graphturbo").schedule(two_convolutions(size), spec, "fp16")
    second = schedule.instances[0].runs[1]
    fetched = [
        i.size_bytes
        for i in lower(schedule, spec, 1).instructions
        if isinstance(i, Transfer) and i.unit == "path_load" and i.label == "conv2 exchange"
    ]

    assert second.binding.factors == (1, 1, *factors)
    assert schedule.pieces[0].scope == "local_buffer"
    assert fetched == [exchanged_bytes(schedule, second)]


def test_where_the_global_buffer_is_small_halos_go_through_it_in_rounds() -> None:
    spec = machine(cores_per_cluster=16, global_buffer={"capacity": "4 KiB", "bandwidth": "64 GB/s"})
    schedule = make_policy("graphturbo").schedule(two_convolutions(28), spec, "fp16")
    program = lower(schedule, spec, 1)
    steps = [i for i in program.instructions if isinstance(i, Transfer) and i.label == "conv2 exchange"]
    fetched = [i.size_bytes for i in steps if i.unit == "path_load"]

    assert [i.unit for i in steps] == ["path_store", "path_load"] * len(fetched)
    assert len(fetched) > 1
    assert sum(fetched) == exchanged_bytes(schedule, schedule.instances[0].runs[1])
    assert simulate(program, spec).makespan_ps > 0


def test_a_core_fetches_what_lies_in_another_instances_piece() -> None:
    net = Net("halves")
    x = net.input(1, 4, 11, 11)
    x = net.concat(net.relu(net.conv(x, 16)), net.relu(net.conv(x, 16)))
    graph = net.graph(net.gemm(net.flatten(net.global_pool(x)), 6))
    local = {"capacity": "2 KiB", "bandwidth": "100 GB/s", "weight_window": 0.4}
    small = machine(cores_per_cluster=8, local_buffer=local, launch="0 ns")
    schedule = make_policy("graphturbo").schedule(graph, small, "fp16")
    pool = next(r for i in schedule.instances for r in i.runs if r.layer.sink.name == "globalaveragepool1")
    read = {p for held in pool.reads.values() for p in held}
    near = tuple(replace(p, scope="local_buffer") if n in read else p for n, p in enumerate(schedule.pieces))
    schedule = replace(schedule, pieces=near)
    large = machine(cores_per_cluster=8, local_buffer={**local, "capacity": "64 KiB"})
    fetched = [
        i.size_bytes
        for i in lower(schedule, large, 1).instructions
        if isinstance(i, Transfer) and i.unit == "path_load" and i.label == "globalaveragepool1 exchange"
    ]

    assert len(read) > 1
    assert fetched == [exchanged_bytes(schedule, pool)]


@pytest.mark.parametrize("policy", sorted(policy_types()))
def test_a_result_that_is_read_again_reaches_ddr_all_the_same(policy: str) -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 8, 8), 4)
    graph, spec = net.graph(net.conv(x, 4), x), machine()
    program = lower(make_policy(policy).schedule(graph, spec, "fp16"), spec, 1)
    stored = sum(i.size_bytes for i in program.instructions if isinstance(i, Transfer) and i.destination == "ddr")

    assert stored == sum(graph.tensors[name].size_bytes for name in graph.outputs)


def test_every_kernel_is_launched_once_and_waits_for_the_one_before() -> None:
    spec = machine()
    schedule = make_policy("unfused").schedule(two_convolutions(8), spec, "fp16")
    program = lower(schedule, spec, 1)
    launches = [p for p, i in enumerate(program.instructions) if isinstance(i, Launch)]

    assert [program.instructions[p].label for p in launches] == ["conv1", "conv2"]
    result = simulate(program, spec)
    assert result.trace.start_ps[launches[1]] == max(result.trace.end_ps[: launches[1]])


def test_weights_and_inputs_lie_in_ddr_from_the_start() -> None:
    spec, graph = machine(), two_convolutions(8)
    program = lower(make_policy("unfused").schedule(graph, spec, "fp16"), spec, 1)
    inputs = graph.tensors["in1"].size_bytes

    first = program.instructions[0]
    assert [program.buffers[b] for b in first.allocates] == [
        Buffer("ddr", graph.weight_bytes + inputs, label="weights and inputs")
    ]


def test_a_network_that_ddr_cannot_hold_is_refused() -> None:
    spec = machine(ddr={"capacity": "1 KiB", "bandwidth": "16 GB/s", "efficiency": 1.0})
    schedule = make_policy("unfused").schedule(two_convolutions(16), spec, "fp16")

    with pytest.raises(ScheduleError, match=r"two: weights and inputs need \d+ bytes, ddr.capacity is less"):
        lower(schedule, spec, 1)


@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "graphturbo"])
def test_a_cache_of_tilings_changes_nothing(policy: str) -> None:
    net = Net()
    x = net.input(4, 4, 8, 8)
    for _ in range(4):
        x = net.relu(net.conv(x, 4))
    spec: ClusteredDsa = machine(local_buffer={"capacity": "2 KiB", "bandwidth": "128 GB/s"})
    schedule = make_policy(policy).schedule(net.graph(x), spec, "fp16")
    cache: TilingCache = {}
    first = lower(schedule, spec, 1, cache)

    assert cache
    assert lower(schedule, spec, 1, cache).instructions == first.instructions == lower(schedule, spec, 1).instructions


def dense_chain(*widths: int) -> Graph:
    net = Net("dense")
    x = net.input(2, 8, widths[0])
    for width in widths[1:]:
        x = net.dense(x, width)
    return net.graph(x)


@pytest.mark.parametrize("buffer", ["4 KiB", "16 KiB", "256 KiB"])
def test_weights_come_from_ddr_in_full_where_tiles_do_not_divide_them(buffer: str) -> None:
    """241 is prime: whichever way it is cut, the last version of the weights is cut short."""
    graph = dense_chain(25, 241, 241, 64)
    spec = machine(local_buffer={"capacity": buffer, "bandwidth": "128 GB/s", "weight_window": 0.4})
    program = lower(make_policy("graphturbo").schedule(graph, spec, "fp16"), spec, 1)

    loads = [i for i in program.instructions if isinstance(i, Transfer) and i.unit == "dma_load"]

    assert sum(i.size_bytes for i in loads) >= graph.weight_bytes


def test_every_buffer_but_the_network_s_own_is_given_back() -> None:
    small = {"capacity": "16 KiB", "bandwidth": "128 GB/s", "weight_window": 0.8}
    spec = machine(cores_per_cluster=2, local_buffer=small, global_buffer={"capacity": "8 KiB", "bandwidth": "64 GB/s"})
    program = lower(
        make_policy("graphturbo").schedule(dense_chain(115, 128, 241, 128, 241, 128), spec, "fp16"), spec, 1
    )
    freed = {buffer for instruction in program.instructions for buffer in instruction.frees}

    assert {b.memory for number, b in enumerate(program.buffers) if number not in freed} == {"ddr"}


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_more_load_channels_make_no_more_dependencies_than_a_few_each(channels: int) -> None:
    wide = {"load": channel("100 ns"), "store": channel("100 ns"), "load_channels": channels}
    spec = machine(dma=wide, global_buffer={"capacity": "128 KiB", "bandwidth": "64 GB/s"})
    program = lower(make_policy("graphturbo").schedule(dense_chain(*[400] * 7), spec, "fp16"), spec, 1)

    assert sum(len(i.after) for i in program.instructions) < 10 * len(program.instructions)


def test_a_layer_split_along_its_depth_waits_for_what_its_views_rename() -> None:
    net = Net("views")
    x = net.relu(net.conv(net.input(1, 8, 6, 6), 48, 1))
    graph = net.graph(net.softmax(net.gemm(net.flatten(net.global_pool(x)), 64)))
    spec = machine(cores_per_cluster=1, local_buffer={"capacity": "8 KiB", "bandwidth": "1 GB/s", "weight_window": 0.4})
    program = lower(make_policy("graphturbo").schedule(graph, spec, "fp16"), spec, 1)
    trace = simulate(program, spec).trace
    ends = [e for i, e in zip(program.instructions, trace.end_ps, strict=True) if i.label == "globalaveragepool1"]
    begins = [b for i, b in zip(program.instructions, trace.start_ps, strict=True) if i.label == "gemm1"]

    assert min(begins) >= max(ends)


def test_what_is_read_through_a_view_is_read_all_the_same() -> None:
    net = Net("renamed")
    last = net.relu(net.reshape(net.relu(net.input(4, 16)), 16, 4))
    program = lower(make_policy("unfused").schedule(net.graph(last), machine(), "fp16"), machine(), 1)

    moved = {  # bytes that all cores read from and write to their local buffers
        label: sum(i.local_bytes * program.members_of(i) for i in program.instructions
                   if isinstance(i, VectorCompute) and i.label == label)
        for label in ("relu1", "relu2")
    }  # fmt: skip
    assert moved == {"relu1": 2 * 64 * 2, "relu2": 2 * 64 * 2}
