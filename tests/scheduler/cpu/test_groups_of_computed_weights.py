"""Weights that are computed are brought into an order that vectors load, whatever the groups of their convolution."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape import load_hardware, simulate
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import may_transpose
from dsascape.workloads.turned_operands import with_turned_operands
from tests.graphs import Net
from tests.tiers import examples


class Grouped(NamedTuple):
    """A convolution of a 12 x 12 image with weights that an operator computes."""

    groups: int
    results: int
    channels: int
    kernel: int = 3
    is_transposed: bool = False
    is_computed: bool = True


def network(drawn: Grouped) -> Graph:
    net = Net()
    groups, results, channels, kernel = drawn.groups, drawn.results, drawn.channels, drawn.kernel
    x = net.input(1, groups * channels, 12, 12)
    shape = (groups * channels, results) if drawn.is_transposed else (groups * results, channels)
    window = (kernel, kernel)
    weight = net.unary("Exp", net.input(*shape, *window)) if drawn.is_computed else net.weight(*shape, *window)
    side, pads = (12 + kernel - 1, [0] * 4) if drawn.is_transposed else (12, [kernel // 2] * 4)
    kind = "ConvTranspose" if drawn.is_transposed else "Conv"
    y = net.op(kind, [x, weight], (1, groups * results, side, side), group=groups, pads=pads)
    return net.graph(y, dtype="fp32")


def seconds(drawn: Grouped, hardware: str) -> float:
    return simulate(network(drawn), load_hardware(hardware), "fixed-pattern", dtype="fp32").record.latency_s


DRAWN = st.builds(
    Grouped, groups=st.integers(2, 5), results=st.sampled_from([8, 16, 24, 32]), channels=st.sampled_from([4, 8, 16]),
    kernel=st.sampled_from([1, 3]), is_transposed=st.booleans(),
)  # fmt: skip
MACHINES = st.sampled_from(["epyc", "kirin990", "raspberry_pi_3b_plus"])


@settings(max_examples=examples(40, few=5), deadline=None)
@given(drawn=DRAWN, hardware=MACHINES)
def test_groups_take_no_longer_than_as_many_convolutions(drawn: Grouped, hardware: str) -> None:
    assert seconds(drawn, hardware) <= 1.05 * drawn.groups * seconds(drawn._replace(groups=1), hardware)


@settings(max_examples=examples(40, few=5), deadline=None)
@given(channels=st.sampled_from([16, 32, 64, 96]), hardware=MACHINES, is_transposed=st.booleans())
def test_channels_by_themselves_take_little_more_than_with_constant_weights(
    channels: int, hardware: str, is_transposed: bool
) -> None:
    """The exponentials and copies of weights come on top: 9 of each for 144 results."""
    drawn = Grouped(channels, 1, 1, is_transposed=is_transposed)

    assert seconds(drawn, hardware) <= 2 * seconds(drawn._replace(is_computed=False), hardware)


@pytest.mark.parametrize("drawn", [Grouped(4, 16, 8), Grouped(4, 16, 8, is_transposed=True), Grouped(32, 1, 1)])
def test_only_the_weights_are_copied(drawn: Grouped) -> None:
    graph = network(drawn)
    products = may_transpose(Analysis(graph))
    (product,) = [graph.ops[op] for op in products]
    _, copies, made = with_turned_operands(product, graph.tensors)

    assert [each.inputs for each in copies] == [product.inputs[1:]]
    assert [each.shape[-1] for each in made] == [drawn.results * (1 if drawn.is_transposed else drawn.groups)]
