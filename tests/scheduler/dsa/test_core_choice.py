"""Layers that run through DDR by themselves are bound to cores by rows, unless other bindings are clearly faster."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import DsaTuning, ScheduleError, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.placing.binding import Binding, all_bindings, cores_sharing, plain_binding
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.parts import splits_evenly_enough
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.runs import costs_on, schedule_with, simulated
from tests.tiers import examples

PLAIN = DsaTuning(cores_bound="plain")


def on_a_path(*, broadcast: bool, bandwidth: str = "1 GB/s") -> ClusteredDsa:
    """Return the small machine of four cores with a slow way from the global buffer to each core."""
    fast = {"bandwidth": "64 GB/s", "startup": "100 ns"}
    return machine(
        on_chip_path={"bandwidth": bandwidth, "startup": "10 ns", "broadcast": broadcast},
        ddr={"capacity": "1 GiB", "bandwidth": "64 GB/s", "efficiency": 1.0}, dma={"load": fast, "store": fast},
    )  # fmt: skip


def product(rows: int = 16, columns: int = 64, depth: int = 64) -> Graph:
    net = Net("product")
    return net.graph(net.dense(net.input(rows, depth), columns))


def the_layer(costs: DsaCosts) -> Layer:
    layer = layer_of(costs.analysis, range(len(costs.analysis.graph.ops)))
    assert layer is not None
    return layer


def chosen(graph: Graph, spec: ClusteredDsa) -> tuple[int, ...]:
    costs = costs_on(spec, graph)
    layer = the_layer(costs)
    return costs.binding_of(layer, layer.sink.shape).factors


class TestChoice:
    def test_each_core_reads_its_own_weights_where_it_cannot_be_sent_them_together(self) -> None:
        # four cores read 4 rows each and all 4,096 weights, or 64 x 64 activations and a quarter of the weights
        assert chosen(product(), on_a_path(broadcast=False)) == (1, 4)

    def test_a_grid_is_chosen_where_it_reads_least(self) -> None:
        # 64 x 64 elements of both operands: 4 x (16 + 64) rows and columns by rows, 4 x (32 + 32) in a grid
        assert chosen(product(rows=64), on_a_path(broadcast=False)) == (2, 2)

    def test_rows_are_chosen_where_one_read_brings_the_weights_to_all_cores(self) -> None:
        assert chosen(product(rows=64), on_a_path(broadcast=True)) == (4, 1)

    def test_bytes_to_the_cores_are_those_of_the_binding(self) -> None:
        graph, spec = product(rows=64), on_a_path(broadcast=False)
        costs = [DsaCosts(DsaView(spec, 1, tuning), Analysis(graph), "fp16") for tuning in (DsaTuning(), PLAIN)]
        schedules = [schedule_with(make_policy("fixed-pattern"), each) for each in costs]
        grid, rows = (simulated(lower(each, DsaView(spec, 1)), spec) for each in schedules)

        assert [each.runs[0].binding.factors for each in schedules] == [(2, 2), (4, 1)]
        # operands come in, 2 x 64 x 64, and results too, 64 x 64, which go out to DDR; two bytes each
        passing = 2 * (2 * 64 * 64 + 2 * 64 * 64)
        assert grid.traffic_bytes["global_buffer"] == passing + 2 * 4 * (32 + 32) * 64
        assert rows.traffic_bytes["global_buffer"] == passing + 2 * 4 * (16 + 64) * 64
        assert grid.makespan_ps < rows.makespan_ps

    def test_layers_that_off_chip_memory_paces_are_bound_by_rows(self) -> None:
        net = Net("added")
        graph = net.graph(net.add(net.input(16, 64), net.input(16, 64)))

        assert chosen(graph, on_a_path(broadcast=False, bandwidth="64 GB/s")) == (4, 1)

    def test_without_a_global_buffer_layers_are_bound_by_rows(self) -> None:
        spec = on_a_path(broadcast=False).model_copy(update={"global_buffer": None})

        assert chosen(product(), spec) == (4, 1)

    @settings(max_examples=examples(40, few=8))
    @given(graph=networks(), spec=machines())
    def test_it_is_estimated_to_take_clearly_less_than_the_plain_one_or_is_that(
        self, graph: Graph, spec: ClusteredDsa
    ) -> None:
        analysis, tuning = Analysis(graph), PLAIN
        costs = DsaCosts(DsaView(spec, 1), analysis, "fp16")
        by_rows = DsaCosts(DsaView(spec, 1, tuning), analysis, "fp16")
        for op in range(len(graph.ops)):
            layer = layer_of(analysis, (op,))
            if layer is None:
                continue
            extents = layer.sink.shape
            plain = plain_binding(extents, layer.sink.order, costs.cores, layer.together, tuning.most_padding)
            assert by_rows.binding_of(layer, extents) == plain
            try:
                before_ps = by_rows.layer_ps(layer, extents)
            except ScheduleError:
                continue
            after_ps, binding = costs.layer_ps(layer, extents), costs.binding_of(layer, extents)
            if binding == plain:
                assert after_ps == before_ps
            else:
                assert after_ps < tuning.rebound * before_ps
                assert binding.cores <= costs.cores


@given(
    extents=st.lists(st.integers(1, 12), min_size=1, max_size=3), cores=st.integers(1, 12),
    most_padding=st.sampled_from([0.0, 0.125, 0.5]),
)  # fmt: skip
def test_all_bindings_are_those_of_every_factorisation(extents: list[int], cores: int, most_padding: float) -> None:
    order = range(len(extents))
    found = {binding.factors for binding in all_bindings(extents, order, cores, (), most_padding)}
    expected = set()
    for factors in itertools.product(range(1, cores + 1), repeat=len(extents)):
        padded = math.prod(-(-size // n) * n for size, n in zip(extents, factors, strict=True))
        good = all(splits_evenly_enough(size, n, most_padding) for size, n in zip(extents, factors, strict=True))
        if cores % math.prod(factors) == 0 and good and padded <= math.prod(extents) * (1 + most_padding) + 1e-6:
            expected.add(factors)

    assert found == expected
    assert plain_binding(extents, order, cores, (), most_padding).factors in found


def test_dimensions_that_run_in_order_are_not_bound() -> None:
    assert {each.factors for each in all_bindings((4, 4), (0, 1), 4, unbound={0})} == {(1, 1), (1, 2), (1, 4)}


def test_cores_along_dimensions_that_an_operand_does_not_have_share_it() -> None:
    costs = costs_on(machine(), product())
    layer = the_layer(costs)
    activation, weight = (next(n for n in layer.inputs if costs.analysis.graph.tensors[n].role == role)
                          for role in ("input", "weight"))  # fmt: skip

    for factors, sharing in (((4, 1), (1, 4)), ((2, 2), (2, 2)), ((1, 4), (4, 1))):
        binding = Binding(factors, (0, 1))
        assert (cores_sharing(layer, activation, binding), cores_sharing(layer, weight, binding)) == sharing
