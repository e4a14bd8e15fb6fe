"""Products of INT8 and FP16 on a CPU: sums of four bytes, several products in each, and what an instruction takes.

The product has 8 rows of 64 numbers and 64 x 16 weights: 8,192 multiply-accumulates. Registers have 16 bytes, so a
vector of INT8 sums has 4 lanes, and a dot product adds up 4 products in each.
"""

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from pydantic import ValidationError

from dsascape.experiments.api import simulate
from dsascape.hw_models import Cpu
from dsascape.hw_models.cpu.core_kinds import VectorShape
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.cpu.structure.nests import anchor_work
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from tests.graphs import Net
from tests.hw_models.cpu.cpus import core, cpu
from tests.quantised_models import read, residual_block
from tests.scheduler.cpu.running import codes_of
from tests.scheduler.cpu.test_rows_between_products import layer
from tests.tiers import examples

QUICK = settings(max_examples=examples(20), deadline=None, phases=(Phase.explicit, Phase.generate))
LANES = {"fp32": 4, "fp16": 8, "int8": 16}
ENERGY = {
    "node": "7 nm", "mac": {"fp32": "2 pJ", "fp16": "1 pJ", "int8": "0.3 pJ"}, "vector_op": "1 pJ",
    "special_op": "10 pJ", "dram": "50 pJ/B", "static_power": "1 W",
}  # fmt: skip


def machine(lanes: dict[str, int] = LANES, instructions: float = 1, **of_core: object) -> Cpu:
    """Return the small CPU with INT8: dot products, or so many ``instructions`` for sixteen products."""
    stated = {} if instructions == 1 else {"int8": instructions}
    simd = {"lanes": lanes, "register": "16 B", "registers": 32, "multiplies_by_lane": True}
    return cpu(cores={"big": core(**of_core)}, simd={**simd, "product_instructions": stated}, energy=ENERGY)


def product(dtype: str, rows: int = 8, depth: int = 64, columns: int = 16) -> Layer:
    """Return the product of data and weights."""
    net = Net()
    made = net.op("MatMul", [net.input(rows, depth), net.weight(depth, columns)], (rows, columns))
    return layer(net.graph(made, dtype=dtype))


def convolution(dtype: str, groups: int) -> Layer:
    """Return a convolution of 3 x 3 of 16 channels without padding, in so many groups."""
    net = Net()
    made = net.conv(net.input(1, 16, 10, 10), 16, groups=groups, pad=0)
    return layer(net.graph(made, dtype=dtype))


def issued(whole: Layer, dtype: str, spec: Cpu, register: tuple[int, ...] = (4, 8)) -> Issued:
    """Return the instructions of a product in register tiles."""
    tiles = LoopTiles(whole.sink.shape, (0, 1), 0, register, 1, None)
    return codes_of(whole, tiles, dtype, CpuView(spec).code)[-1].issued


def cycles(whole: Layer, dtype: str, spec: Cpu) -> float:
    """Return the cycles of the tiles that are chosen, on one thread."""
    view = CpuView(spec)
    view = replace(view, tuning=replace(view.tuning, threads=1))
    tiling = choose_tiling(whole, dtype, view, KnownTiles())
    return kernel_of(whole, tiling.tiles, 1, dtype, view).chunk_cycles(view.paces[0])


@pytest.mark.parametrize(
    ("dtype", "lanes", "shape"),
    [
        ("fp32", 4, VectorShape(4)),
        ("fp16", 8, VectorShape(8)),
        ("fp16", 4, VectorShape(4, converts=True)),
        ("bf16", 8, VectorShape(4, 2)),
        ("int8", 16, VectorShape(4, 4)),
        ("int8", 32, VectorShape(4, 8)),
    ],
    ids=["fp32", "fp16", "fp16 stored only", "bfdot", "sdot", "smmla"],
)
def test_a_vector_has_as_many_lanes_as_sums_fit_into_a_register(dtype: str, lanes: int, shape: VectorShape) -> None:
    energy = {**ENERGY, "mac": dict.fromkeys(("fp32", dtype), "1 pJ")}
    simd = {"lanes": {"fp32": 4, dtype: lanes}, "register": "16 B", "registers": 32, "multiplies_by_lane": True}

    assert cpu(simd=simd, energy=energy).simd.vector(dtype) == shape


class TestInstructions:
    """Register tiles of 4 rows and 8 columns: 8 accumulators of 4 sums."""

    def test_one_dot_product_is_sixteen_products(self) -> None:
        assert issued(product("fp32"), "fp32", machine()).fma == 8192 // 4
        assert issued(product("int8"), "int8", machine()).fma == 8192 // 16

    def test_widening_products_take_two_multiplications_and_an_addition_for_sixteen(self) -> None:
        assert issued(product("int8"), "int8", machine(instructions=3)).fma == 8192 // 16 * 3

    def test_depth_that_four_does_not_divide_is_filled_up(self) -> None:
        """6 numbers are two dot products for each 4 of 8 x 16 sums."""
        assert issued(product("int8", depth=6), "int8", machine()).fma == 2 * 8 * 16 // 4

    def test_a_register_of_operands_feeds_as_many_products_as_it_has_numbers(self) -> None:
        """Per tile, 64 x 8 weights in registers of 16, and 4 x 64 data in registers of 16; 4 tiles. Before that: none.

        Results are four bytes of one store each, which two vectors of a row share.
        """
        found = issued(product("int8"), "int8", machine())

        assert found.load == 4 * (64 * 8 // 16 + 4 * 64 // 16)
        assert found.store == 8 * 16 // 4 / 2

    def test_results_of_a_byte_are_requantised_with_three_instructions_for_four(self) -> None:
        assert issued(product("int8"), "int8", machine()).arithmetic == 3 * 8 * 16 // 4
        assert issued(product("fp32"), "fp32", machine()).arithmetic == 0

    def test_numbers_that_are_only_stored_in_half_precision_are_converted_at_loads_and_stores(self) -> None:
        """Loads as in FP32 by halves of registers, whose conversions are: of weights, of data by lane, and of results.

        Per tile, 64 x 8 weights in vectors of 4, and 4 x 64 data in vectors of 4; 8 x 16 results.
        """
        found = issued(product("fp16"), "fp16", machine({**LANES, "fp16": 4}))

        assert found.fma == 8192 // 4
        assert found.arithmetic == 4 * (64 * 8 // 4 + 4 * 64 // 4) + 8 * 16 // 4

    def test_a_depthwise_convolution_has_no_depth_that_an_instruction_adds_up(self) -> None:
        assert anchor_work(convolution("int8", 1)).sums_in_depth
        assert not anchor_work(convolution("int8", 16)).sums_in_depth


class TestPipes:
    """A core of two pipes."""

    def test_products_may_have_pipes_of_their_own(self) -> None:
        """smull and smlal2 in one pipe, sadalp in the other: three instructions in two cycles."""
        (big,) = machine(instructions=3, product_pipes={"int8": 1.5}).kinds
        work = Issued(fma=300, accumulators=8)

        assert issue_cycles(big, work, "fp32") == 150
        assert issue_cycles(big, work, "int8") == 200

    def test_the_peak_is_that_of_the_products(self) -> None:
        """Two cores of 1 GHz: 2 pipes x 16 products; or 1.5 instructions a cycle, of which 3 make 16 products."""
        without = machine(instructions=3, product_pipes={"int8": 1.5})

        assert machine().peak_macs_per_s("int8") == 64e9
        assert without.peak_macs_per_s("int8") == pytest.approx(16e9)
        assert without.peak_macs_per_s("fp32") == machine().peak_macs_per_s("fp32") == 16e9

    def test_products_of_a_dtype_without_lanes_are_refused(self) -> None:
        with pytest.raises(ValidationError, match=r"big\.product_pipes has bf16; simd\.lanes has fp32, fp16, int8"):
            machine(product_pipes={"bf16": 1.0})


@QUICK
@given(
    rows=st.integers(1, 12), depth=st.sampled_from([3, 16, 64, 100]), columns=st.sampled_from([4, 10, 64]),
    instructions=st.sampled_from([2, 3, 4]),
)  # fmt: skip
def test_dot_products_are_never_slower_than_widening_ones(
    rows: int, depth: int, columns: int, instructions: float
) -> None:
    whole = product("int8", rows, depth, columns)

    assert cycles(whole, "int8", machine()) <= cycles(whole, "int8", machine(instructions=instructions))


def test_narrower_products_are_faster_and_depthwise_ones_hardly() -> None:
    of = {dtype: cycles(product(dtype, 64, 256, 64), dtype, machine()) for dtype in LANES}
    apart = {dtype: cycles(convolution(dtype, 16), dtype, machine()) for dtype in LANES}

    assert of["fp32"] > 1.8 * of["fp16"] > 3 * of["int8"]
    assert apart["fp32"] > apart["fp16"]
    assert apart["int8"] > 0.5 * apart["fp32"]


def test_the_graph_is_in_the_dtype_that_is_asked_for() -> None:
    graph: Graph = product("int8").graph

    assert {tensor.dtype for tensor in graph.tensors.values()} == {"int8"}


def quantised_convolution(spec: Cpu) -> int:
    """Return the largest tile of Winograd's algorithm in which convolutions of bytes are, of 64 channels of 16 x 16."""
    graph = read(residual_block(TensorProto.INT8, 64, 16), "fp32")
    tuning = {"threads": 1, "winograd": 6, "coarse_winograd": True}
    schedule = simulate(graph, spec, "fixed-pattern", dtype="fp32", tuning=tuning).schedule
    assert isinstance(schedule, CpuSchedule)
    return max([run.algorithm for run in schedule.runs])


def test_convolutions_of_bytes_have_winograd_s_algorithm_only_where_there_are_no_dot_products() -> None:
    """Widening products make 16 in 3 instructions, products of 16 bits 4 in one: F(4, 3) has a fourth of them."""
    assert quantised_convolution(machine()) == 0
    assert quantised_convolution(machine(instructions=3)) == 4
