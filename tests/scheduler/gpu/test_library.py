"""Products as libraries compute them: times by hand, more of anything never slower, expected no less than the bound."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.hw_models import Gpu, load_hardware, with_values
from dsascape.scheduler import kind_of
from dsascape.scheduler.gpu.library import library_ps
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.tiers import examples

GRAPHS = GpuTuning(graphs=True)



def h100() -> Gpu:
    found = load_hardware("h100")
    assert isinstance(found, Gpu)
    return found


def product(rows: int, columns: int, depth: int, dtype: str = "fp16") -> Graph:
    return single_operator(SingleOperator("p", "MatMul", ((rows, depth),), ((depth, columns),))).with_dtype(dtype)


def library_us(graph: Graph, spec: Gpu, dram_bytes: float = 0.0, dtype: str = "fp16") -> float:
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    view = GpuView(spec.launched_in_graphs, dtype, GRAPHS)
    return library_ps(layer, view.of(layer), dram_bytes) / 1e6


def test_a_product_of_one_tile_takes_launch_trips_one_step_and_its_results() -> None:
    spec = h100()
    step_cycles = max(64 / 16 * 32 + 2 * 29, (64 + 8) * 128 / 48)
    by_hand = 1.2 + 3 * 0.358 + (step_cycles + 64 * 8 * 2 / 48) * spec.cycle_ps / 1e6

    assert library_us(product(64, 8, 64), spec) == pytest.approx(by_hand, rel=1e-6)


def test_rows_of_no_multiple_of_16_bytes_take_longer_than_the_next_that_are_one() -> None:
    spec = h100()

    even, odd = [library_us(product(2000, 1536, depth), spec) for depth in (784, 777)]
    assert odd > 1.5 * even
    assert library_us(product(2000, 1536, 778), spec) < odd


def test_few_tiles_of_a_long_depth_share_it_in_spite_of_the_kernel_that_adds_up() -> None:
    spec = h100()
    shallow, deep = [library_us(product(128, 128, depth), spec) for depth in (4096, 65536)]

    assert deep < 16 * (shallow - 1.2 - 3 * 0.358)


NAMES = "l2.bandwidth", "dram.bandwidth", "sms.count", "sms.clock"
BETTER = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1.5, 2, 4]), min_size=1)


@settings(max_examples=examples(25), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    sizes=st.tuples(*[st.integers(1, 3000)] * 3), dtype=st.sampled_from(["fp16", "fp32"]), more=BETTER,
    dram_bytes=st.sampled_from([0.0, 1e6, 1e8]),
)
def test_more_of_anything_is_never_slower(
    sizes: tuple[int, int, int], dtype: str, more: dict[str, float], dram_bytes: float
) -> None:
    spec = h100()
    values = {"l2.bandwidth": spec.l2.bandwidth_bytes_per_s, "dram.bandwidth": spec.dram.bandwidth_bytes_per_s,
              "sms.count": spec.sms.count, "sms.clock": spec.sms.clock_hz}  # fmt: skip
    units = {"l2.bandwidth": " B/s", "dram.bandwidth": " B/s", "sms.clock": " Hz"}
    given_values = {
        name: int(values[name] * times) if name == "sms.count" else f"{values[name] * times:.0f}{units[name]}"
        for name, times in more.items()
    }
    better = with_values(spec, given_values)
    assert isinstance(better, Gpu)

    graph = product(*sizes, dtype)
    assert library_us(graph, better, dram_bytes, dtype) <= library_us(graph, spec, dram_bytes, dtype) * (1 + 1e-9)


@pytest.mark.parametrize(("network", "policy"), [("resnet18", "eager"), ("bert-tiny", "fixed-pattern")])
def test_expected_is_no_less_than_the_bound_and_follows_the_library(network: str, policy: str) -> None:
    spec = h100()
    unknown = spec.model_copy(update={"library": None})
    given_library, without = [
        simulate(network, machine, policy, dtype="fp16", tuning={"graphs": True}) for machine in (spec, unknown)
    ]
    times_ps = kind_of(spec).library(spec, GRAPHS, given_library.schedule)

    assert given_library.record.latency_s == without.record.latency_s
    assert given_library.record.expected_latency_s >= given_library.record.latency_s
    assert given_library.record.expected_latency_s >= sum(times_ps) / 1e12
    assert len(times_ps) == given_library.record.kernels
    assert sum(each > 0 for each in times_ps) > len(times_ps) / 3


def batched(number: int, rows: int, depth: int, columns: int) -> Graph:
    operands = ((number, rows, depth), (number, depth, columns))
    return single_operator(SingleOperator("bmm", "MatMul", operands))


@pytest.mark.parametrize(("card", "rows", "filled"), [("a100", 96, 128), ("a100", 196, 256), ("p100", 40, 64)])
def test_products_of_a_batch_fill_the_tiles_that_there_are(card: str, rows: int, filled: int) -> None:
    spec = with_values(load_hardware(card, Gpu), {"graph_launch": "3 us"})
    part, whole = [library_us(batched(320, each, 512, 512), spec, dtype="fp32") for each in (rows, filled)]

    assert part == pytest.approx(whole)


def test_products_on_lanes_take_what_their_instructions_take_to_issue() -> None:
    """A P100 has tiles of 128 x 32 by 256 threads: 8 warps with 16 multiply-adds, 2 loads, 0.3 copies and a loop.

    Two of them issue a cycle, which is more than the multiply-adds take; three blocks of an SM take turns.
    """
    spec = with_values(load_hardware("p100", Gpu), {"graph_launch": "3 us"})
    issued = 8 * (16 + 2 + 2 * 160 / 4 / 256 + 1) / 2
    cycles = issued + 2 * 8 * 4 / (3 * 8 / 2)
    tiles = -(-128 * 128 // 56)
    of_results = 128 * 32 * 4 / 19.3
    by_hand_us = tiles * (2048 * cycles + of_results) / 1.48e3

    found_us = library_us(product(128 * 128, 128 * 32, 2048, "fp32"), spec, dtype="fp32")
    assert found_us == pytest.approx(by_hand_us + 3 + 3 * 0.4, rel=1e-3)


def test_nothing_is_known_of_tensor_units_without_tiles() -> None:
    spec = load_hardware("a100", Gpu)

    assert library_us(product(1024, 1024, 1024), spec, dtype="fp16") == 0
    assert library_us(product(1024, 1024, 1024), spec, dtype="fp32") > 0
