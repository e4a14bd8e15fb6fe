"""Clusters that share every kernel exchange operands over a stated link: what crosses it, what DDR is spared, when."""

from dataclasses import replace

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models import ClusteredDsa, Transfer, dsa_energy, dsa_machine, unrolled
from dsascape.hw_models.dsa.levels import CLUSTER_LINK
from dsascape.hw_models.dsa.spec import CLUSTER_EXCHANGE
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import DsaTuning, Schedule, ScheduleError, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import over_link, through_ddr
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.dsa.schedule.schedule import Layout
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.dsa.tiling.tiling import Route
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.hw_models.every_engine import simulated_on_every_engine
from tests.scheduler.dsa.delivery import Needs, check_delivery
from tests.scheduler.runs import DTYPE, Run, overlaps, schedule_with, simulated, traffic
from tests.scheduler.small import product
from tests.tiers import examples

ALWAYS = DsaTuning(kernels_divided="always")
FAST = {"topology": "crossbar", "bandwidth": "64 GB/s", "startup": "0 ps", "energy": "3 pJ/B"}
SLOW = FAST | {"bandwidth": "250 MB/s"}
SLOW_DDR = {"capacity": "1 GiB", "bandwidth": "4 GB/s", "efficiency": 1.0}
WITHOUT_SHRINKING = (Phase.explicit, Phase.generate)


def linked(clusters: int = 2, link: object = FAST, **changes: object) -> ClusteredDsa:
    return machine(clusters=clusters, launch="0 ps", ddr=SLOW_DDR, cluster_link=link, **changes)


def costs_of(graph: Graph, spec: ClusteredDsa) -> DsaCosts:
    return DsaCosts(DsaView(spec, spec.clusters, ALWAYS), Analysis(graph), DTYPE)


def run_of(schedule: Schedule, spec: ClusteredDsa) -> Run:
    program = lower(schedule, DsaView(spec, spec.clusters, ALWAYS))
    return Run(schedule.graph, spec, schedule, program, simulated(program, spec))


def by_policy(name: str, graph: Graph, spec: ClusteredDsa) -> Run:
    """Return the run of a network whose kernels all clusters share; draws that do not fit are left out."""
    policy = make_policy(name, {"rewriting": False} if name == "dnnfusion" else {})
    try:
        return run_of(schedule_with(policy, costs_of(graph, spec)), spec)
    except ScheduleError:
        assume(False)
        raise


def ways(graph: Graph, spec: ClusteredDsa) -> tuple[Run, ...]:
    """Return the runs of a network kernel by kernel: through DDR alone, loaded together, with results on chip."""
    costs, plan = costs_of(graph, spec), fixed_pattern_plan(graph)
    layouts: tuple[Layout, ...] = through_ddr(plan, costs), *over_link(plan, costs)
    return tuple([run_of(decide(layout, costs, "test"), spec) for layout in layouts])


def received_bytes(run: Run) -> int:
    """Return the bytes that one cluster receives over the link."""
    payloads = [each.payload for each in run.program.instructions if each.unit == CLUSTER_EXCHANGE]
    return sum(each.size_bytes * each.fan_out for each in payloads if isinstance(each, Transfer))


def two_products() -> Graph:
    """Return a row of 512, a product with 512 x 1024 weights, and one with 1024 x 512."""
    net = Net("two products")
    return net.graph(net.matmul(net.matmul(net.input(1, 512), net.weight(512, 1024)), net.weight(1024, 512)))


class TestByHand:
    def test_the_input_of_a_product_is_loaded_once_and_each_half_sent_to_the_other_cluster(self) -> None:
        """A row of 512 times 1024 columns, half of these each: the row's 1024 B are read once, 512 B sent each way."""
        apart, together = ways(product(1, 1024, 512), linked())

        assert apart.result.traffic_bytes["ddr"] == 2**20 + 2 * 1024 + 2048
        assert together.result.traffic_bytes["ddr"] == 2**20 + 1024 + 2048
        assert received_bytes(together) == 512
        assert together.result.traffic_bytes[CLUSTER_LINK] == 2 * 512
        assert together.result.energy_pj[CLUSTER_LINK] == 2 * 512 * 3
        (execution,) = together.schedule.executions
        assert Route(0.5, 0.0, 4, True, (), 0.5, 1) in execution.routes.values()

    def test_a_result_stays_where_it_is_computed_and_the_other_half_comes_over_the_link(self) -> None:
        """The 2048 B between two products leave DDR's traffic, stored once and read twice; 1024 B go each way."""
        apart, together, on_chip = ways(two_products(), linked())
        weights, ends = 2 * 2**20, 1024 + 1024

        assert apart.result.traffic_bytes["ddr"] == weights + ends + 1024 + 2048 + 2 * 2048
        assert together.result.traffic_bytes["ddr"] == weights + ends + 2048 + 2048
        assert on_chip.result.traffic_bytes["ddr"] == weights + ends
        assert received_bytes(together) == received_bytes(on_chip) == 512 + 1024
        between = on_chip.schedule.slices[0]
        assert (between.memory, between.size_bytes) == ("global_buffer", 1024)
        assert [each.from_clusters_bytes for each in on_chip.schedule.executions] == [0, 0]

    def test_four_clusters_send_each_byte_to_three_others(self) -> None:
        """Each sends its 256 B once; three parts of 256 B arrive at each port, and a bus carries four of them."""
        for topology, crossing in (("crossbar", 4 * 3 * 256), ("bus", 4 * 256)):
            _, together = ways(product(1, 1024, 512), linked(4, FAST | {"topology": topology}))
            (sent,) = (each.payload for each in together.program.instructions if each.unit == CLUSTER_EXCHANGE)

            assert isinstance(sent, Transfer)
            assert (sent.size_bytes, sent.fan_out) == (256, 3)
            assert together.result.traffic_bytes[CLUSTER_LINK] == crossing
            assert together.result.energy_pj[CLUSTER_LINK] == 4 * 3 * 256 * 3

    def test_rows_stay_with_their_cluster_and_their_halo_comes_over_the_link(self) -> None:
        """Each of two clusters lacks one row, of 64 pixels with 8 channels, for a window of three: 1024 B."""
        net = Net("rows")
        graph = net.graph(net.conv(net.relu(net.conv(net.input(1, 8, 64, 64), 8, 1)), 8, 3))
        *_, on_chip = ways(graph, linked())
        last, execution = on_chip.schedule.runs[-1], on_chip.schedule.executions[-1]
        (route,) = (route for name, route in execution.routes.items() if name in last.reads)

        assert on_chip.schedule.slices[last.reads[last.layer.inputs[0]][0]].memory == "global_buffer"
        assert route.from_clusters == pytest.approx(1 / 33)
        assert (route.from_ddr, route.receivers) == (0.0, 1)

    def test_a_slow_link_sets_the_pace_by_its_bandwidth(self) -> None:
        """Half of 1 MiB of weights arrives at each cluster, where both compute with all of them."""
        graph = product(512, 512, 1024)
        spec = linked(link=SLOW)
        costs = costs_of(graph, spec)
        layout = through_ddr(fixed_pattern_plan(graph), costs)
        (instance,) = layout.instances
        (run,) = instance.runs
        names = tuple(name for name in run.layer.inputs if graph.tensors[name].role == "weight")
        forced = replace(layout, instances=(replace(instance, runs=(replace(run, loaded_together=names),)),))
        found = run_of(decide(forced, costs, "test"), spec)
        doubled = linked(link=SLOW | {"bandwidth": "500 MB/s"})
        faster = run_of(decide(forced, costs_of(graph, doubled), "test"), doubled)

        assert run.divided is not None
        assert run.divided.factors == (2, 1)
        assert received_bytes(found) == 2**19
        at_least_ps = 2**19 / 250e6 * PS_PER_S
        assert at_least_ps <= found.result.makespan_ps < 1.1 * at_least_ps
        assert faster.result.makespan_ps < 0.6 * found.result.makespan_ps
        assert found.result.utilisation[CLUSTER_LINK] > 0.9

    def test_an_exchange_waits_until_the_parts_to_be_sent_are_there(self) -> None:
        _, together, on_chip = ways(two_products(), linked())
        instructions = together.program.instructions
        exchanges = [each for each in instructions if each.unit == CLUSTER_EXCHANGE]

        assert exchanges
        assert all(any(instructions[before].unit == "dma_load" for before in each.after) for each in exchanges)
        *_, last = (each for each in on_chip.program.instructions if each.unit == CLUSTER_EXCHANGE)
        assert any(on_chip.program.instructions[before].unit != "dma_load" for before in last.after)

    def test_without_a_link_there_is_no_other_way(self) -> None:
        assert len(ways(two_products(), linked(link=None))) == 1

    def test_one_cluster_has_nobody_to_exchange_with(self) -> None:
        assert len(ways(two_products(), linked(1))) == 1


    def test_a_schedule_over_a_link_is_refused_by_a_machine_without_one(self) -> None:
        _, together, on_chip = ways(two_products(), linked())
        without = costs_of(two_products(), linked(link=None))

        with pytest.raises(ScheduleError, match="in1 together; the clusters have no link"):
            read_schedule(schedule_json(together.schedule), without)
        with pytest.raises(ScheduleError, match="others cannot read it in the global_buffer"):
            read_schedule(schedule_json(on_chip.schedule), without)

    def test_a_share_over_the_link_that_the_slices_do_not_have_is_refused(self) -> None:
        *_, on_chip = ways(two_products(), linked())
        file = schedule_json(on_chip.schedule)
        route = file["instances"][1]["runs"][0]["routes"]["matmul1"]
        assert route["from_clusters"] == 0.5
        route["from_clusters"] = 0.25

        with pytest.raises(ScheduleError, match="its slices require 50% cluster_link"):
            read_schedule(file, costs_of(two_products(), linked()))


class TestTheSpec:
    def test_a_link_needs_global_buffers(self) -> None:
        with pytest.raises(ValueError, match="cluster_link links global buffers; needs a global_buffer"):
            linked(global_buffer=None)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"bandwidth": "0 GB/s"}, "bandwidth"), ({"bandwidth": 100}, "unit"), ({"topology": "torus"}, "crossbar"),
            ({"energy": None}, "energy"), ({"hops": 1}, "hops"),
        ],
    )  # fmt: skip
    def test_values_out_of_bounds_are_refused_by_name(self, values: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            linked(link=FAST | values)


LINKS = st.fixed_dictionaries({
    "topology": st.sampled_from(["crossbar", "bus"]), "bandwidth": st.sampled_from(["1 GB/s", "16 GB/s", "200 GB/s"]),
    "startup": st.sampled_from(["0 ps", "200 ns"]), "energy": st.just("1 pJ/B"),
})  # fmt: skip


@st.composite
def on_linked_clusters(draw: st.DrawFn) -> tuple[Graph, ClusteredDsa]:
    """Draw a network and a machine of several clusters with a link, of shared or of private DDR."""
    graph, spec = draw(networks(most_blocks=2)), draw(machines().filter(lambda spec: spec.global_buffer is not None))
    sharing = draw(st.sampled_from(["shared", "private"]))
    values = spec.model_dump(by_alias=True)
    changed = values | {"cluster_link": draw(LINKS), "clusters": draw(st.sampled_from([2, 3, 4]))}
    return graph, ClusteredDsa.model_validate(changed | {"ddr": values["ddr"] | {"sharing": sharing}})


@settings(max_examples=examples(60, few=8), phases=WITHOUT_SHRINKING)
@given(drawn=on_linked_clusters())
def test_every_way_is_valid_delivers_everything_and_comes_back_from_its_file(
    drawn: tuple[Graph, ClusteredDsa]
) -> None:
    graph, spec = drawn
    view = DsaView(spec, spec.clusters, ALWAYS)
    try:
        runs = ways(graph, spec)
    except ScheduleError:
        assume(False)
        raise
    for run in runs:
        assert violations(run.schedule, view) == []
        for cluster in range(spec.clusters):
            own = tuple(
                replace(each, runs=tuple(replace(one, box=one.cluster_box(cluster)) for one in each.runs))
                for each in run.schedule.instances
            )
            check_delivery(replace(run.schedule, instances=own), run.program, Needs(), all_cores=True)
        assert run.result.traffic_bytes["ddr"] == traffic(run.program)["ddr"]
        assert overlaps(run) == []
        again = read_schedule(schedule_json(run.schedule), costs_of(graph, spec))
        assert again.in_full() == run.schedule.in_full()
        assert lower(again, view).instructions == run.program.instructions


@settings(max_examples=examples(30, few=5), phases=WITHOUT_SHRINKING)
@given(drawn=on_linked_clusters(), name=st.sampled_from(["fixed-pattern", "graphturbo"]))
def test_engines_agree_and_clusters_stay_in_step(drawn: tuple[Graph, ClusteredDsa], name: str) -> None:
    graph, spec = drawn
    run = by_policy(name, graph, spec)
    found = simulated_on_every_engine(run.program, dsa_machine(spec), dsa_energy(spec))

    assert found.traffic_bytes == run.result.traffic_bytes
    assume(len(run.program.instructions) * spec.cores < 6_000)
    assume(len({each.binding.cores for each in run.schedule.runs}) == 1)
    member_by_member = simulated(unrolled(run.program), spec)
    assert member_by_member.traffic_bytes == run.result.traffic_bytes
    assert member_by_member.makespan_ps == pytest.approx(run.result.makespan_ps, rel=1e-6)


@settings(max_examples=examples(40, few=6), phases=WITHOUT_SHRINKING)
@given(drawn=on_linked_clusters(), name=st.sampled_from(["unfused", "fixed-pattern", "graphturbo", "ago"]))
def test_a_link_slows_no_network(drawn: tuple[Graph, ClusteredDsa], name: str) -> None:
    graph, spec = drawn
    without = by_policy(name, graph, spec.model_copy(update={"cluster_link": None}))

    assert by_policy(name, graph, spec).result.makespan_ps <= 1.02 * without.result.makespan_ps


@pytest.mark.parametrize("topology", ["crossbar", "bus"])
def test_the_link_is_listed_beside_the_global_buffers_with_ddr_the_outermost(topology: str) -> None:
    spec = linked(link=FAST | {"topology": topology})
    shared = run_of(ways(two_products(), spec)[1].schedule, spec).program.shared_memories
    loads = [unit for unit, kind in spec.activities.items() if kind == "load"]

    assert shared == ("ddr", CLUSTER_LINK, "global_buffer")
    assert loads.index("dma_load") < loads.index(CLUSTER_EXCHANGE) < loads.index("path_load")
