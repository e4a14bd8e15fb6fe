"""Operands and results of a product lie in rows; on a machine that reloads them each tile brings all of its own."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.scheduler.dsa.lower.memory_rows import operand_rows, output_row, pieces
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.graphs import Net
from tests.tiers import examples


def layer(net: Net, output: str) -> Layer:
    graph = net.graph(output)
    return Layer(graph, (len(graph.ops) - 1,), Analysis(graph))


def test_pixels_are_rows_of_channels_and_weights_rows_of_results() -> None:
    net = Net()
    convolution = layer(net, net.conv(net.input(1, 64, 8, 8), 32, 3))

    work = convolution.tile_work((1, 16, 4, 4))  # 16 of 32 results, two bytes each
    assert operand_rows(convolution, work) == {"in1": 64 * 2, "w1": 16 * 2}
    assert output_row(convolution, work) == 16 * 2
    a_quarter = convolution.tile_work((1, 16, 4, 4), 16)
    assert operand_rows(convolution, a_quarter) == {"in1": 16 * 2, "w1": 16 * 2}


def test_a_depthwise_convolution_has_rows_of_one_element() -> None:
    net = Net()
    depthwise = layer(net, net.conv(net.input(1, 8, 6, 6), 8, 3, groups=8))

    work = depthwise.tile_work((1, 8, 6, 6))
    assert operand_rows(depthwise, work) == {"in1": 2, "w1": 2}
    assert output_row(depthwise, work) == 2


def test_what_no_product_reads_is_contiguous() -> None:
    net = Net()
    relu = layer(net, net.relu(net.input(1, 8, 6, 6)))

    work = relu.tile_work((1, 8, 6, 6))
    assert (operand_rows(relu, work), output_row(relu, work)) == ({}, 0)
    assert pieces({"x": 100, "y": 64, "z": 0}, {"y": 30}) == ((1, 100), (3, 30))


PRODUCT = single_operator(SingleOperator("product", "MatMul", ((128, 256),), ((256, 256),)))
IN_FOUR = {PRODUCT.ops[-1].name: {"tile": {"m": 128, "n": 64, "k": 256}}}


def test_every_tile_loads_all_of_its_operands_where_the_machine_reloads_them() -> None:
    gemmini = load_hardware("gemmini", ClusteredDsa)
    kept = with_values(gemmini, {"local_buffer.reloads": False})
    moved = [
        simulate(PRODUCT, spec, "fixed-pattern", dtype="int8", pins=IN_FOUR).record.traffic_bytes["ddr"]
        for spec in (gemmini, kept)
    ]

    left, right, result = 128 * 256, 256 * 256, 128 * 256
    assert moved == [4 * left + right + result, left + right + result]


FASTER = {
    "ddr.bandwidth": ("8 GB/s", "16 GB/s"), "dma.load.request": ("16 B", "64 B"), "dma.store.request": ("16 B", "64 B"),
    "dma.load.requests_in_flight": (4, 16), "units.matrix.issue_cycles": (8, 1), "local_buffer.reloads": (True, False),
    "units.matrix.accumulator_sets": (1, 2), "local_buffer.bandwidth": ("8 GB/s", "64 GB/s"),
}  # fmt: skip


@settings(max_examples=examples(12), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    rows=st.sampled_from([1, 7, 64, 130]), columns=st.sampled_from([16, 100]), depth=st.sampled_from([16, 200]),
    tile=st.sampled_from([4, 16, 50]), what=st.sampled_from(sorted(FASTER)),
)  # fmt: skip
def test_a_better_machine_is_never_slower_with_the_same_tiles(
    rows: int, columns: int, depth: int, tile: int, what: str
) -> None:
    graph = single_operator(SingleOperator("product", "MatMul", ((rows, depth),), ((depth, columns),)))
    pins = {graph.ops[-1].name: {"tile": {"m": min(tile, rows), "n": 16, "k": depth}}}
    worse, better = (
        simulate(graph, with_values(load_hardware("gemmini", ClusteredDsa), {what: value}), "fixed-pattern",
                 dtype="int8", pins=pins).record.latency_s
        for value in FASTER[what]
    )  # fmt: skip

    assert better <= worse
