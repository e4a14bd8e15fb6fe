"""A program's time, traffic and energy are exactly those of the schedule's decisions."""

from collections.abc import Mapping

import pytest

from dsascape.hw_models import Buffer, ClusteredDsa, Compute, Launch, Program, Transfer
from dsascape.scheduler import LayerRun, Layout, Schedule, ScheduleError, make_policy, policy_types
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.dsa.tiling.choice import TilingCache
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import box_volume, intersect
from dsascape.workloads.regions import required_regions
from tests.graphs import Net, machine
from tests.scheduler.runs import costs_on, schedule_of, schedule_with, simulated


def scheduled(policy: str, graph: Graph, spec: ClusteredDsa) -> Schedule:
    return schedule_of(make_policy(policy), graph, spec)


def program_of(policy: str, graph: Graph, spec: ClusteredDsa) -> Program:
    return lower(scheduled(policy, graph, spec), DsaView(spec, 1))


def transfers(program: Program, unit: str, label: str = "") -> list[int]:
    """Return the bytes of the transfers on a unit, those of a label if one is given."""
    return [
        i.payload.size_bytes
        for i in program.instructions
        if isinstance(i.payload, Transfer) and i.unit == unit and label in ("", i.label)
    ]


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
        energy = {}
        for count in (1, cores):
            spec = machine(cores_per_cluster=count)
            schedule = scheduled("unfused", indivisible(), spec)
            assert schedule.instances[0].runs[0].binding.cores == 1
            energy[count] = simulated(lower(schedule, DsaView(spec, 1)), spec).energy_pj

        assert energy[cores]["macs"] == energy[1]["macs"]
        assert energy[cores]["local_buffer"] == energy[1]["local_buffer"]

    @pytest.mark.parametrize("cores", [2, 4, 8])
    def test_move_no_bytes(self, cores: int) -> None:
        traffic = {}
        for count in (1, cores):
            spec = machine(cores_per_cluster=count)
            traffic[count] = dict(simulated(program_of("unfused", indivisible(), spec), spec).traffic_bytes)

        assert traffic[cores] == traffic[1]


def test_a_long_dma_start_up_makes_no_network_too_large() -> None:
    slow = {"load": channel("5 us"), "store": channel("5 us")}
    spec = machine(dma=slow, global_buffer={"capacity": "64 KiB", "bandwidth": "64 GB/s"})

    assert simulated(program_of("unfused", indivisible(), spec), spec).makespan_ps > 0


def exchanged_bytes(schedule: Schedule, run: LayerRun) -> int:
    """Return the most bytes that any core lacks of the run's inputs in the local buffers, counted for every core."""
    most = 0
    for core in range(run.binding.cores):
        part = {run.layer.sink.name: run.binding.part(run.box, core)}
        needs = required_regions(schedule.graph, run.layer.ops, part)
        lacking = 0
        for name, held in run.reads.items():
            for each in (schedule.slices[number] for number in held):
                wanted = intersect(needs[name], each.box)
                mine = intersect(needs[name], each.binding.part(each.box, core))
                if wanted is not None and each.memory == "local_buffer":
                    lacking += box_volume(wanted) - (0 if mine is None else box_volume(mine))
        most = max(most, lacking * 2)
    return most


@pytest.mark.parametrize(("cores", "size", "factors"), [(4, 8, (4, 1)), (9, 15, (3, 3)), (16, 28, (4, 4))])
def test_a_core_fetches_the_halo_that_its_neighbours_hold(cores: int, size: int, factors: tuple[int, int]) -> None:
    spec = machine(cores_per_cluster=cores)
    schedule = scheduled("graphturbo", two_convolutions(size), spec)
    second = schedule.instances[0].runs[1]
    fetched = transfers(lower(schedule, DsaView(spec, 1)), "path_load", "conv2 exchange")

    assert second.binding.factors == (1, 1, *factors)
    assert schedule.slices[0].memory == "local_buffer"
    assert fetched == [exchanged_bytes(schedule, second)]


def test_where_the_global_buffer_is_small_halos_go_through_it_in_rounds() -> None:
    spec = machine(cores_per_cluster=16, global_buffer={"capacity": "4 KiB", "bandwidth": "64 GB/s"})
    schedule = scheduled("graphturbo", two_convolutions(28), spec)
    program = lower(schedule, DsaView(spec, 1))
    steps = [i for i in program.instructions if i.label == "conv2 exchange"]
    fetched = transfers(program, "path_load", "conv2 exchange")

    assert [i.unit for i in steps] == ["path_store", "path_load"] * len(fetched)
    assert len(fetched) > 1
    assert sum(fetched) == exchanged_bytes(schedule, schedule.instances[0].runs[1])
    assert simulated(program, spec).makespan_ps > 0


def test_a_core_fetches_what_lies_in_another_instances_piece() -> None:
    net = Net("halves")
    x = net.input(1, 4, 11, 11)
    x = net.concat(net.relu(net.conv(x, 16)), net.relu(net.conv(x, 16)))
    graph = net.graph(net.gemm(net.flatten(net.global_pool(x)), 6))
    local = {"capacity": "2 KiB", "bandwidth": "100 GB/s", "weight_window": 0.4}
    small = machine(cores_per_cluster=8, local_buffer=local, launch="0 ns")
    schedule = scheduled("graphturbo", graph, small)
    pool = next(r for i in schedule.instances for r in i.runs if r.layer.sink.name == "globalaveragepool1")
    read = sorted({number for held in pool.reads.values() for number in held})
    slices = list(schedule.slices)
    for place, number in enumerate(read):
        slices[number] = slices[number]._replace(memory="local_buffer", address=4096 * (place + 1))
    large = machine(cores_per_cluster=8, local_buffer={**local, "capacity": "64 KiB"})
    moved = decide(Layout(schedule.plan, schedule.instances, tuple(slices)), costs_on(large, graph), "by hand")

    assert len(read) > 1
    assert violations(moved, DsaView(large, 1)) == []
    assert transfers(lower(moved, DsaView(large, 1)), "path_load", "globalaveragepool1 exchange") == [
        exchanged_bytes(moved, pool)
    ]


@pytest.mark.parametrize("policy", sorted(policy_types()))
def test_a_result_that_is_read_again_reaches_ddr_all_the_same(policy: str) -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 8, 8), 4)
    graph, spec = net.graph(net.conv(x, 4), x), machine()
    program = program_of(policy, graph, spec)

    assert sum(transfers(program, "dma_store")) == sum(graph.tensors[name].size_bytes for name in graph.outputs)


def test_every_kernel_is_launched_once_and_waits_for_the_one_before() -> None:
    spec = machine()
    schedule = scheduled("unfused", two_convolutions(8), spec)
    program = lower(schedule, DsaView(spec, 1))
    launches = [p for p, i in enumerate(program.instructions) if isinstance(i.payload, Launch)]

    assert [program.instructions[p].label for p in launches] == ["conv1", "conv2"]
    result = simulated(program, spec)
    assert result.trace.start_ps[launches[1]] == max(result.trace.end_ps[: launches[1]])


def test_weights_and_inputs_lie_in_ddr_from_the_start() -> None:
    spec, graph = machine(), two_convolutions(8)
    program = program_of("unfused", graph, spec)
    inputs = graph.tensors["in1"].size_bytes

    first = program.instructions[0]
    assert [program.buffers[b] for b in first.allocates] == [
        Buffer("ddr", graph.weight_bytes + inputs, label="weights and inputs")
    ]


def test_a_network_that_ddr_cannot_hold_is_refused() -> None:
    spec = machine(ddr={"capacity": "1 KiB", "bandwidth": "16 GB/s", "efficiency": 1.0})

    with pytest.raises(ScheduleError, match=r"two: weights, inputs and tensors.* of DDR at once; .* is 1 KiB"):
        scheduled("unfused", two_convolutions(16), spec)


@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "graphturbo"])
def test_cached_tilings_change_nothing(policy: str) -> None:
    net = Net()
    x = net.input(4, 4, 8, 8)
    for _ in range(4):
        x = net.relu(net.conv(x, 4))
    graph = net.graph(x)
    spec = machine(local_buffer={"capacity": "2 KiB", "bandwidth": "128 GB/s"})
    cache = TilingCache()
    programs = []
    for kept in (cache, cache, None):
        costs = DsaCosts(DsaView(spec, 1), Analysis(graph), "fp16", kept)
        programs.append(lower(schedule_with(make_policy(policy), costs), costs.view))

    assert len(cache.tilings) > 0
    assert programs[0].instructions == programs[1].instructions == programs[2].instructions


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
    program = program_of("graphturbo", graph, spec)

    assert sum(transfers(program, "dma_load")) >= graph.weight_bytes + graph.tensors["in1"].size_bytes


def test_every_buffer_but_the_network_s_own_is_given_back() -> None:
    small = {"capacity": "16 KiB", "bandwidth": "128 GB/s", "weight_window": 0.8}
    spec = machine(cores_per_cluster=2, local_buffer=small, global_buffer={"capacity": "8 KiB", "bandwidth": "64 GB/s"})
    program = program_of("graphturbo", dense_chain(115, 128, 241, 128, 241, 128), spec)
    freed = {buffer for instruction in program.instructions for buffer in instruction.frees}

    assert [(b.memory, b.label) for number, b in enumerate(program.buffers) if number not in freed] == [
        ("ddr", "weights and inputs"),
        ("ddr", "matmul5"),
    ]


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_more_load_channels_make_no_more_dependencies_than_a_few_each(channels: int) -> None:
    wide = {"load": channel("100 ns"), "store": channel("100 ns"), "load_channels": channels}
    spec = machine(dma=wide, global_buffer={"capacity": "128 KiB", "bandwidth": "64 GB/s"})
    program = program_of("graphturbo", dense_chain(*[400] * 7), spec)

    assert sum(len(i.after) for i in program.instructions) < 10 * len(program.instructions)


def test_a_layer_split_along_its_depth_waits_for_what_its_views_rename() -> None:
    net = Net("views")
    x = net.relu(net.conv(net.input(1, 8, 6, 6), 48, 1))
    graph = net.graph(net.softmax(net.gemm(net.flatten(net.global_pool(x)), 64)))
    local = {"capacity": "6 KiB", "bandwidth": "128 GB/s", "weight_window": 0.4}
    spec = machine(cores_per_cluster=1, local_buffer=local)
    schedule = scheduled("graphturbo", graph, spec)
    program = lower(schedule, DsaView(spec, 1))
    trace = simulated(program, spec).trace
    product = next(e for e, run in zip(schedule.executions, schedule.runs, strict=True) if "w2" in run.layer.inputs)
    ends = [e for i, e in zip(program.instructions, trace.end_ps, strict=True) if i.label == "globalaveragepool1"]
    begins = [b for i, b in zip(program.instructions, trace.start_ps, strict=True) if i.label == "gemm1"]

    assert product.tiling.depth_steps > 1
    assert min(begins) >= max(ends)


def test_reads_through_a_view_count() -> None:
    net = Net("renamed")
    last = net.relu(net.reshape(net.relu(net.input(4, 16)), 16, 4))
    program = program_of("unfused", net.graph(last), machine())

    moved = {  # bytes that all cores read from and write to their local buffers
        label: sum(size * program.executions(i) for i in program.instructions
                   if isinstance(i.payload, Compute) and i.label == label for _, size in i.payload.traffic)
        for label in ("relu1", "relu2")
    }  # fmt: skip
    assert moved == {"relu1": 2 * 64 * 2, "relu2": 2 * 64 * 2}


def test_units_of_different_kinds_work_on_different_layers() -> None:
    """A product and a pooling of it as layers of one kernel: pooling begins before the product ends."""
    net = Net("across")
    x = net.conv(net.conv(net.input(4, 8, 32, 32), 16, 1), 16, 1)
    y = net.pool(x, 2, 2)
    graph = net.graph(net.conv(y, 16, 1))
    spec = machine(local_buffer={"capacity": "1 MiB", "bandwidth": "128 GB/s", "weight_window": 0.2})

    def overlapped(*, instruction_scheduling: bool) -> bool:
        policy = make_policy("graphturbo", {"instruction_scheduling": instruction_scheduling})
        program = lower(schedule_of(policy, graph, spec), DsaView(spec, 1))
        first = [n for n, i in enumerate(program.instructions) if i.label == x and i.unit == "matrix"]
        follower = [n for n, i in enumerate(program.instructions) if i.label == y and i.unit == "vector"]
        return min(follower) < max(first)

    assert overlapped(instruction_scheduling=True)
    assert not overlapped(instruction_scheduling=False)
