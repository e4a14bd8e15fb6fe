"""The expected latency divides the critical path by what the machine states of libraries; the bound stays."""

from collections import Counter
from functools import cache
from typing import get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import AnyHardware, load_hardware
from dsascape.hw_models.common.spec_types import LAUNCHES, MEMORY, TENSOR, KernelKind
from dsascape.workloads import Graph, load_network
from dsascape.workloads.kernel_kinds import CONVOLUTION, DEPTHWISE, OTHER, PRODUCT, kind_of_kernel
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.graphs import Net

KINDS = ("product", "convolution", "depthwise", "other", "memory", "tensor")


def with_libraries(name: str, shares: dict[str, float]) -> AnyHardware:
    """Return a machine with these efficiencies, and nothing else that is known of its libraries."""
    machine = load_hardware(name)
    changed: dict[str, object] = {"library_efficiency": shares, "library_efficiency_of": {}}
    unknown: dict[str, object] = {"library": None, "library_region": {}}
    return machine.model_copy(update=changed | {name: each for name, each in unknown.items() if hasattr(machine, name)})


@cache
def small() -> Graph:
    """Return kernels of every kind: a convolution, one of each channel, a product, a pool and an activation."""
    net = Net("small")
    x = net.relu(net.conv(net.input(1, 8, 28, 28), 32))
    x = net.softmax(net.relu(net.conv(net.relu(net.depthwise(x)), 64, 1)), 1)
    return net.graph(net.gemm(net.flatten(net.global_pool(x)), 10), dtype="fp32")


@cache
def bound(name: str) -> RunRecord:
    return simulated(name)


def simulated(machine: str | AnyHardware, dtype: str | None = None) -> RunRecord:
    """Return what the small network takes on a machine, in its usual dtype unless ``dtype`` is given."""
    return simulate(small(), machine, "fixed-pattern", dtype=dtype).record


@pytest.mark.parametrize("name", ["stcp920", "kirin990", "adreno640"])
def test_without_efficiencies_the_bound_is_expected(name: str) -> None:
    record = simulated(with_libraries(name, {}))

    assert record.expected_latency_s == pytest.approx(record.latency_s, rel=1e-12)


@settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    name=st.sampled_from(["stcp920", "kirin990", "adreno640"]),
    shares=st.dictionaries(st.sampled_from(KINDS), st.floats(0.1, 1), min_size=1),
)
def test_expected_lies_between_the_bound_and_the_bound_by_the_least_efficiency(
    name: str, shares: dict[str, float]
) -> None:
    before, machine = bound(name), with_libraries(name, shares)
    record = simulated(machine)

    assert record.latency_s == before.latency_s
    assert record.energy_j == before.energy_j
    slack = 1 + 1e-9
    assert record.latency_s <= record.expected_latency_s * slack
    assert record.expected_latency_s <= record.latency_s / min(shares.values()) * slack


def test_what_a_library_takes_to_split_loops_is_expected_of_every_split_kernel_and_changes_no_bound() -> None:
    # a kernel on all eight threads takes 100 us in place of 5, others less
    machine = load_hardware("kirin990").model_copy(update={"library_efficiency": {}, "library_efficiency_of": {}})
    plain, stated = [
        simulated(machine.model_copy(update={"library_region": each})) for each in ({}, {"8": 100_000_000})
    ]

    assert plain.expected_latency_s == pytest.approx(plain.latency_s, rel=1e-12)
    assert stated.latency_s == plain.latency_s
    beyond_s = stated.expected_latency_s - stated.latency_s
    assert 0 < beyond_s <= stated.kernels * 95e-6 * (1 + 1e-9)


def product(dtype: str, shares: dict[str, float]) -> tuple[float, float, float]:
    """Bound, launch and expected seconds of a product of 4096 x 4096 x 4096 on an A100 with these efficiencies."""
    machine = with_libraries("a100", shares)
    matrix = (4096, 4096)
    graph = single_operator(SingleOperator("p", "MatMul", (matrix,), (matrix,))).with_dtype(dtype)
    record = simulate(graph, machine, "fixed-pattern", dtype=dtype).record
    return record.latency_s, record.critical["launch"] * record.latency_s, record.expected_latency_s


def test_tensor_units_have_an_efficiency_of_their_own_where_it_is_stated() -> None:
    bound_s, launch_s, expected_s = product("fp16", {"product": 0.9, "tensor": 0.5})
    assert expected_s == pytest.approx(launch_s + (bound_s - launch_s) / 0.5, rel=0.01)

    bound_s, launch_s, expected_s = product("fp16", {"product": 0.5})
    assert expected_s == pytest.approx(launch_s + (bound_s - launch_s) / 0.5, rel=1e-6)

    bound_s, launch_s, expected_s = product("fp32", {"product": 0.9, "tensor": 0.5})
    assert expected_s == pytest.approx(launch_s + (bound_s - launch_s) / 0.9, rel=1e-6)


@pytest.mark.parametrize("of_launches", [1.0, 0.4])
def test_launches_have_an_efficiency_of_their_own(of_launches: float) -> None:
    stated = {} if of_launches == 1 else {"launch": of_launches}
    machine = with_libraries("adreno640", dict.fromkeys(KINDS, 0.5) | stated)
    record = simulated(machine)
    launching_s = record.critical["launch"] * record.latency_s

    expected_s = 2 * (record.latency_s - launching_s) + launching_s / of_launches
    assert record.expected_latency_s == pytest.approx(expected_s, rel=1e-6)


def test_a_dtype_may_have_an_efficiency_for_each_kind() -> None:
    machine = with_libraries("kirin990", dict.fromkeys(KINDS, 0.5))
    by_kind = {"product": 0.25, "convolution": 0.5, "depthwise": 0.5}
    each, one = [
        simulated(machine.model_copy(update={"library_efficiency_of": of}), "fp16")
        for of in ({"fp16": by_kind}, {"fp16": 0.25})
    ]  # fmt: skip

    assert 2 * each.latency_s < each.expected_latency_s < one.expected_latency_s


def test_a_kernel_s_kind_follows_from_its_loops() -> None:
    found = {(op.kind, kind_of_kernel(op.nests)) for op in load_network("mobilenet-v2").ops}

    convolutions = {("Conv", kind) for kind in ("convolution", "depthwise", "product")}
    assert convolutions <= found
    assert {(kind, of) for kind, of in found if of != "other"} == {*convolutions, ("Gemm", "product")}


def test_strided_convolutions_of_one_element_are_products() -> None:
    kinds = [kind_of_kernel(op.nests) for op in load_network("resnet50").ops if op.kind == "Conv"]

    # of 53 convolutions sixteen are 3 x 3 and one is 7 x 7
    assert (kinds.count("product"), kinds.count("convolution")) == (36, 17)


def test_groups_of_channels_are_no_windows() -> None:
    """ShuffleNet: 32 convolutions of 1x1, most in three groups, 16 with one channel a group, and the first of 3x3."""
    kinds = Counter(kind_of_kernel(op.nests) for op in load_network("shufflenet-v1").ops if op.kind == "Conv")
    grouped = [kind_of_kernel(op.nests) for op in load_network("alexnet").ops if op.kind == "Conv"]

    assert kinds == {PRODUCT: 32, DEPTHWISE: 16, CONVOLUTION: 1}
    assert grouped == 5 * [CONVOLUTION]


def test_a_machine_file_names_the_kinds_that_there_are() -> None:
    kinds = set(get_args(KernelKind))

    assert {PRODUCT, CONVOLUTION, DEPTHWISE, OTHER, MEMORY, TENSOR, LAUNCHES} == kinds == {*KINDS, LAUNCHES}


def test_an_efficiency_of_a_dtype_comes_before_that_of_the_kind() -> None:
    matrix = (256, 256)
    graph = single_operator(SingleOperator("p", "MatMul", (matrix,), (matrix,))).with_dtype("int8")
    machine = load_hardware("kirin990")
    every: dict[str, dict[str, float]] = {"kind": {"product": 0.25}, "dtype": {"product": 0.5}}
    of_dtype = {"kind": {}, "dtype": {"int8": 0.25, "fp16": 0.1}}
    found = [
        simulate(
            graph, machine.model_copy(update={"library_efficiency": shares, "library_efficiency_of": of_dtype[by]}),
            "fixed-pattern", dtype="int8",
        ).record.expected_latency_s
        for by, shares in every.items()
    ]  # fmt: skip

    assert found[0] == pytest.approx(found[1])
    assert found[0] > simulate(graph, machine, "fixed-pattern", dtype="int8").record.latency_s
