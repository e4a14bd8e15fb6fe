"""Clusters that share every kernel: what each computes, stores, reads from the others, and what that costs."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa, Launch, Transfer, unrolled
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import DsaTuning, Schedule, ScheduleError, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.cut import layers_by_pattern, layers_with_attention
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.dsa.delivery import Needs, check_delivery
from tests.scheduler.runs import DTYPE, Run, overlaps, schedule_with, simulated, traffic
from tests.scheduler.small import product
from tests.tiers import examples

POLICIES = ("unfused", "fixed-pattern", "dnnfusion", "ago", "graphturbo")
"""Policies whose kernels clusters can share."""
CLUSTERS = st.sampled_from([2, 3, 4, 6])
ALWAYS = DsaTuning(kernels_divided="always")


def costs_of(graph: Graph, spec: ClusteredDsa) -> DsaCosts:
    return DsaCosts(DsaView(spec, spec.clusters, ALWAYS), Analysis(graph), DTYPE)


def divided(name: str, graph: Graph, spec: ClusteredDsa) -> Run:
    """Return the run of a network whose kernels all clusters share; draws that do not fit are left out."""
    policy = make_policy(name, {"rewriting": False} if name == "dnnfusion" else {})
    costs = costs_of(graph, spec)
    try:
        schedule = schedule_with(policy, costs)
        program = lower(schedule, costs.view)
    except ScheduleError:
        assume(False)
        raise
    return Run(graph, spec, schedule, program, simulated(program, spec))


def ddr_bytes(run: Run, unit: str) -> int:
    """Return the bytes that one cluster moves on a DMA unit."""
    payloads = [each.payload for each in run.program.instructions if each.unit == unit]
    return sum(each.size_bytes for each in payloads if isinstance(each, Transfer))


@st.composite
def few_images(draw: st.DrawFn) -> tuple[Graph, ClusteredDsa]:
    """Draw a network and a machine of several clusters, of shared or of private DDR."""
    graph, spec = draw(networks(most_blocks=2)), draw(machines())
    ddr = spec.ddr.model_copy(update={"sharing": draw(st.sampled_from(["shared", "private"]))})
    return graph, spec.model_copy(update={"clusters": draw(CLUSTERS), "ddr": ddr})


@pytest.mark.sampled(3, long=["ago"])
@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicyThatDivides:
    @settings(max_examples=examples(40, few=5))
    @given(drawn=few_images())
    def test_every_element_is_computed_equally_often_and_stored_where_it_is_computed(
        self, name: str, drawn: tuple[Graph, ClusteredDsa]
    ) -> None:
        graph, spec = drawn
        run = divided(name, graph, spec)

        assert violations(run.schedule, DsaView(spec, spec.clusters, ALWAYS)) == []
        for layer_run in run.schedule.runs:
            times = np.zeros(layer_run.layer.sink.shape, int)
            for cluster in range(spec.clusters):
                times[tuple(slice(lo, hi) for lo, hi in layer_run.cluster_box(cluster))] += 1
            parts = 1 if layer_run.divided is None else layer_run.divided.cores
            assert (times == spec.clusters // parts).all()
            stored = run.schedule.slices[layer_run.writes[0]]
            assert stored.size_bytes * parts == graph.tensors[stored.tensor].size_bytes

    @settings(max_examples=examples(30, few=4))
    @given(drawn=few_images())
    def test_every_cluster_gets_all_that_it_computes_with(self, name: str, drawn: tuple[Graph, ClusteredDsa]) -> None:
        """Traced for each cluster's own part, though one program serves all of them."""
        graph, spec = drawn
        run = divided(name, graph, spec)
        for cluster in range(spec.clusters):
            check_delivery(of_cluster(run.schedule, cluster), run.program, Needs(), all_cores=True)

    @settings(max_examples=examples(40, few=5))
    @given(drawn=few_images())
    def test_bytes_moved_are_those_of_the_schedule_and_take_their_time(
        self, name: str, drawn: tuple[Graph, ClusteredDsa]
    ) -> None:
        graph, spec = drawn
        run = divided(name, graph, spec)
        written = [run.schedule.slices[number] for each in run.schedule.runs for number in each.writes]
        stored, loaded = ddr_bytes(run, "dma_store"), ddr_bytes(run, "dma_load")

        assert run.result.traffic_bytes["ddr"] == (stored + loaded) * spec.clusters == traffic(run.program)["ddr"]
        own = sum(each.size_bytes for each in written)
        assert own <= stored <= own + 4 * run.result.simulated_events  # rounded up, transfer by transfer
        assert loaded >= sum(each.from_clusters_bytes for each in run.schedule.executions)

        makespan_ps, moved = run.result.makespan_ps, run.result.traffic_bytes["ddr"]
        launches = sum(isinstance(each.payload, Launch) for each in run.program.instructions)
        assert makespan_ps >= moved / spec.ddr.sustained_bytes_per_s * PS_PER_S * 0.999999
        assert makespan_ps >= launches * spec.launch_ps
        assert overlaps(run) == []

    @settings(max_examples=examples(20, few=3))
    @given(drawn=few_images())
    def test_it_comes_back_from_its_file(self, name: str, drawn: tuple[Graph, ClusteredDsa]) -> None:
        graph, spec = drawn
        run = divided(name, graph, spec)
        again = read_schedule(schedule_json(run.schedule), costs_of(graph, spec))

        assert again.in_full() == run.schedule.in_full()
        assert lower(again, DsaView(spec, spec.clusters, ALWAYS)).instructions == run.program.instructions

    @settings(max_examples=examples(15, few=3))
    @given(drawn=few_images())
    def test_clusters_stay_in_step(self, name: str, drawn: tuple[Graph, ClusteredDsa]) -> None:
        graph, spec = drawn
        run = divided(name, graph, spec)
        assume(len(run.program.instructions) * spec.cores < 6_000)
        assume(len({each.binding.cores for each in run.schedule.runs}) == 1)
        member_by_member = simulated(unrolled(run.program), spec)

        assert member_by_member.traffic_bytes == run.result.traffic_bytes
        assert member_by_member.makespan_ps == pytest.approx(run.result.makespan_ps, rel=1e-6)


def of_cluster(schedule: Schedule, cluster: int) -> Schedule:
    """Return the schedule with the boxes that ``cluster`` computes in place of the first cluster's."""
    instances = tuple(
        replace(each, runs=tuple(replace(run, box=run.cluster_box(cluster)) for run in each.runs))
        for each in schedule.instances
    )
    return replace(schedule, instances=instances)


FOUR = machine(clusters=4, launch="0 ps")


class TestByHand:
    def test_columns_of_a_product_are_divided_and_its_weights_read_once(self) -> None:
        """One row of 512: 512 x 1024 weights of 2 B are 1 MiB, which clusters read once together, at 16 GB/s."""
        run = divided("fixed-pattern", product(1, 1024, 512), FOUR)
        (only,) = run.schedule.runs

        assert only.divided is not None
        assert only.divided.factors == (1, 4)
        assert run.result.traffic_bytes["ddr"] == 2**20 + 4 * 512 * 2 + 1024 * 2
        assert 1.0 <= run.result.makespan_ps / (2**20 / 16e9 * PS_PER_S) < 1.1

    @pytest.mark.parametrize("size", [256, 512])
    def test_a_square_product_is_divided_in_a_grid_of_rows_and_columns(self, size: int) -> None:
        """Each of 2 x 2 clusters reads half of either matrix: 2 + 2 + 1 matrices; by rows alone it were 1 + 4 + 1."""
        run = divided("fixed-pattern", product(size, size, size), FOUR)
        (only,) = run.schedule.runs

        assert only.divided is not None
        assert only.divided.factors == (2, 2)
        assert run.result.traffic_bytes["ddr"] == 5 * size * size * 2
        assert f"of [0:{size}x0:{size}] clusters=2x2" in str(run.schedule)

    @pytest.mark.parametrize("size", [256, 512])
    def test_planning_counts_on_the_fastest_division(self, size: int) -> None:
        graph = product(size, size, size)
        costs = costs_of(graph, FOUR)
        run = divided("fixed-pattern", graph, FOUR)

        (estimated_ps,) = (each.tiling.estimate_ps for each in run.schedule.executions)
        assert costs.kernel_s([0]) == costs.launch_s + estimated_ps / PS_PER_S

    def test_what_others_stored_is_read_from_ddr(self) -> None:
        """Each of four clusters stores a quarter of 1024 elements, and reads 1536 B of the others' for the next."""
        net = Net("two products")
        graph = net.graph(net.matmul(net.matmul(net.input(1, 512), net.weight(512, 1024)), net.weight(1024, 512)))
        run = divided("fixed-pattern", graph, FOUR)

        assert [each.from_clusters_bytes for each in run.schedule.executions] == [0, 3 * 256 * 2]
        assert "1536 B stored by other clusters" in run.schedule.in_full()
        assert "of [0:1x0:1024] clusters=1x4" in str(run.schedule)

    def test_rows_stay_with_their_cluster_and_their_halo_comes_from_others(self) -> None:
        """64 rows of 64 through a pointwise product and a window of three rows: few weights, so rows are divided."""
        net = Net("rows")
        x = net.relu(net.conv(net.input(1, 8, 64, 64), 8, 1))
        run = divided("fixed-pattern", net.graph(net.conv(x, 8, 3)), FOUR)

        factors = {each.layer.sink.name: each.divided and each.divided.factors for each in run.schedule.runs}
        assert set(factors.values()) == {(1, 1, 4, 1)}
        halo_bytes = 2 * 8 * 64 * 2  # a row above and one below, of 8 channels, for clusters in the middle
        assert [each.from_clusters_bytes for each in run.schedule.executions] == [0, halo_bytes]

    def test_a_layer_that_cannot_be_divided_is_computed_by_every_cluster(self) -> None:
        net = Net("odd")
        run = divided("fixed-pattern", net.graph(net.relu(net.input(1, 3, 5, 7))), FOUR)

        assert run.schedule.runs[0].divided is None
        assert run.result.traffic_bytes["ddr"] == 4 * 2 * 3 * 5 * 7 * 2

    def test_with_two_parts_of_four_clusters_two_compute_each(self) -> None:
        net = Net("two")
        run = divided("fixed-pattern", net.graph(net.relu(net.input(1, 6, 5, 7))), FOUR)
        (only,) = run.schedule.runs
        boxes = Counter(only.cluster_box(cluster) for cluster in range(4))

        assert sorted(boxes.values()) == [2, 2]

    def test_a_private_part_of_ddr_holds_its_own_part_of_the_weights(self) -> None:
        """A mebibyte of weights does not fit 512 KiB of a private part whole; a quarter of it does."""
        ddr = {"capacity": "2 MiB", "bandwidth": "16 GB/s", "efficiency": 1.0, "sharing": "private"}
        run = divided("fixed-pattern", product(1, 1024, 512), machine(clusters=4, ddr=ddr))

        assert run.result.peak_occupancy_bytes["ddr"] == 2**18 + 512 * 2 + 256 * 2

    def test_a_policy_that_keeps_tensors_on_chip_divides_nothing(self) -> None:
        with pytest.raises(ScheduleError, match="astitch"):
            schedule_with(make_policy("astitch"), costs_of(product(4, 64, 64), FOUR))


class TestEditedFiles:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"divided": (1, 3)}, "does not divide"), ({"divided": (1, 8)}, "is divided into 8 parts"),
            ({"divided": None}, "another part"), ({"from_clusters_bytes": 1}, "its slices require 0"),
        ],
    )  # fmt: skip
    def test_that_contradict_themselves_are_refused(self, values: dict[str, object], message: str) -> None:
        graph = product(1, 1024, 512)
        document = schedule_json(divided("fixed-pattern", graph, FOUR).schedule)
        document["instances"][0]["runs"][0] |= values

        with pytest.raises(ScheduleError, match=message):
            read_schedule(document, costs_of(graph, FOUR))

    def test_that_are_for_a_shared_batch_are_refused_where_kernels_are_shared(self) -> None:
        graph = product(1, 1024, 512)
        document = schedule_json(divided("fixed-pattern", graph, FOUR).schedule)
        document["machine"]["clusters_share"] = "batch"

        with pytest.raises(ScheduleError, match="clusters_share"):
            read_schedule(document, costs_of(graph, FOUR))


class TestAttention:
    """Four heads of 64 tokens and 16 channels, of which each of two clusters computes two."""

    @staticmethod
    def _graph(*, reads_scores: bool = False) -> Graph:
        net = Net("attention")
        query, key, value = net.input(1, 4, 64, 16), net.input(1, 4, 16, 64), net.input(1, 4, 64, 16)
        scores = net.matmul(query, key)
        mixed = net.matmul(net.softmax(scores), value)
        return net.graph(mixed, net.relu(scores)) if reads_scores else net.graph(mixed)

    def test_its_scores_stay_on_chip(self) -> None:
        run = divided("graphturbo", self._graph(), machine(clusters=2))
        (layer_run,) = run.schedule.runs

        assert layer_run.layer.streamed
        assert ddr_bytes(run, "dma_load") == 3 * 2 * 64 * 16 * 2  # three operands of two heads, two bytes an element
        assert ddr_bytes(run, "dma_store") == 2 * 64 * 16 * 2

    def test_scores_that_something_else_reads_are_stored(self) -> None:
        graph = self._graph(reads_scores=True)
        every = tuple(range(len(graph.ops)))

        assert layers_with_attention(Analysis(graph), every) == layers_by_pattern(Analysis(graph), every)

    def test_without_attention_layers_are_those_by_pattern(self) -> None:
        net = Net("softmax")
        graph = net.graph(net.dense(net.softmax(net.input(16, 64)), 64))

        assert len(layers_with_attention(Analysis(graph), (0, 1))) == len(layers_by_pattern(Analysis(graph), (0, 1)))
