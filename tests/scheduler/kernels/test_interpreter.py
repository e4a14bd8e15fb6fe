"""The interpreter: trees compute what their networks do, and what is counted on the way is what one counts by hand."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dsascape.scheduler.cpu.schedule.steps import cpu_limits, program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.counting import CountedMachine, Counts, Part
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.interpreter import interpret
from dsascape.scheduler.kernels.loops.memories import InterpreterError
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Loop, Nodes, loops_of
from dsascape.scheduler.kernels.loops.observed import Access, Event
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import (
    ComputeAt,
    Level,
    RowPadding,
    Steps,
    Tile,
    Unroll,
    UnrollReduction,
    Vectorise,
)
from dsascape.workloads import Graph
from dsascape.workloads.bounded import graph_with_bounded_nests
from dsascape.workloads.executable import executable
from tests.graphs import Net, networks
from tests.scheduler.kernels.drawn import (
    GRID,
    GRIDS,
    LANES,
    NARROW,
    TOLERANCE,
    Rows,
    anchored,
    any_tiles,
    changed,
    cpu_programs,
    difference,
    grid_program,
    grid_programs,
    reference_values,
    varied,
    whole_layer,
)
from tests.tiers import examples
from tests.workloads.test_masked_attention import written_out

ANY = settings(deadline=None, suppress_health_check=list(HealthCheck))


class TestValues:
    @settings(ANY, max_examples=examples(32, few=4))
    @given(graph=networks(dtype="fp32"))
    def test_of_the_built_in_choices_are_the_networks(self, graph: Graph) -> None:
        for programs in (cpu_programs(graph), grid_programs(graph)):
            values = dict[str, np.ndarray]()
            for program, layer, network in programs:
                values = values or reference_values(varied(graph))
                assert difference(program, layer, network, {**network.values, **values}) <= TOLERANCE, str(program)

    @settings(ANY, max_examples=examples(100))
    @given(drawn=anchored(), data=st.data())
    def test_of_whatever_is_legal_on_cpus_are_right(
        self, drawn: tuple[Graph, LoopTiles], data: st.DataObject
    ) -> None:
        graph, tiles = drawn
        layer = whole_layer(graph)
        steps = data.draw(changed(steps_of(layer, tiles, LANES), tiles, layer.sink.name))
        try:
            program = loop_program(NaiveProgram(layer), steps)
        except StepError:
            return
        assume(not illegal(program, cpu_limits(NARROW)))
        network = varied(graph)
        assert difference(program, layer, network, reference_values(network)) <= TOLERANCE

    @settings(ANY, max_examples=examples(100))
    @given(drawn=any_tiles())
    def test_of_whatever_is_legal_on_grids_are_right(self, drawn: tuple[str, GpuTiles, Rows]) -> None:
        name, tiles, rows = drawn
        net = Net()
        graph = net.graph(GRIDS[name](net), dtype="fp32")
        layer, network = whole_layer(graph), varied(graph)
        program = grid_program(layer, tiles, GRID.spec.sms.warp, rows)
        assume(not illegal(program, gpu_limits(GRID)))
        assert difference(program, layer, network, reference_values(network)) <= TOLERANCE


def product(rows: int = 4, depth: int = 6, columns: int = 8) -> tuple[Layer, Graph]:
    net = Net()
    graph = net.graph(net.dense(net.input(rows, depth), columns), dtype="fp32")
    return whole_layer(graph), graph


TILED: Steps = (
    Tile("matmul1", (Level("space", (0, 1), (2, 4)),)), ComputeAt("matmul1.sum", "matmul1", 2, "register"),
    Vectorise("matmul1.sum", 4), Unroll("matmul1.sum"), Vectorise("matmul1", 4),
)  # fmt: skip
"""Tiles of two rows of one vector, in two by two of them."""
SUMS: Part = ("matmul1.sum", "update")
RESULTS: Part = ("matmul1", "store")


def counted(steps: Steps, machine: CountedMachine | None = None, rows: int = 4) -> Counts:
    layer, graph = product(rows)
    counts, network = Counts(machine or CountedMachine()), varied(graph)
    program = loop_program(NaiveProgram(layer), steps)
    assert difference(program, layer, network, reference_values(network), counts) <= TOLERANCE
    return counts.finish()


class TestCounts:
    def test_of_a_naive_product(self) -> None:
        counts = counted(())

        assert counts.executions[SUMS] == counts.elements[SUMS] == counts.bands[SUMS] == 6 * 4 * 8
        # in1[m, k] stays in its register while n goes through the columns; the sums lie in memory
        assert counts.loads[SUMS, "in1"].registers == 6 * 4
        assert counts.loads[SUMS, "w1"].registers == 6 * 4 * 8
        assert counts.loads[SUMS, "matmul1.sum"].registers == counts.stores[SUMS, "matmul1.sum"].registers == 6 * 4 * 8

    def test_of_register_tiles(self) -> None:
        counts = counted(TILED)

        assert (counts.executions[SUMS], counts.elements[SUMS], counts.bands[SUMS]) == (4 * 6 * 2, 4 * 6 * 8, 4 * 6)
        # in each of 4 tiles and 6 iterations of the depth: two elements of a column, and one vector of a row
        assert counts.loads[SUMS, "in1"].registers == 4 * 6 * 2
        assert counts.loads[SUMS, "w1"].registers == 4 * 6
        assert counts.loads[SUMS, "matmul1.sum"].registers == 0  # a buffer in registers
        assert counts.stores[RESULTS, "matmul1"].registers == 4 * 2
        assert counts.loads[SUMS, "w1"].gathered == counts.spills.total() == 0

    def test_of_registers_that_do_not_suffice(self) -> None:
        # two sums, one of two elements of in1 after the other, one vector of w1 in each of 24 bands
        assert counted(TILED, CountedMachine(registers=4)).spills[SUMS] == 0
        assert counted(TILED, CountedMachine(registers=3)).spills[SUMS] == 24

    def test_of_a_gather(self) -> None:
        """Vectors along the rows of a result load a column of an operand: neighbours there are six elements apart."""
        net = Net()
        graph = net.graph(net.transpose(net.input(4, 6), 1, 0), dtype="fp32")
        layer, network = whole_layer(graph), varied(graph)
        counts = Counts()
        steps = (Vectorise(layer.sink.name, 4),)
        interpret(loop_program(NaiveProgram(layer), steps), layer, network, reference_values(network), counts)
        (moved,) = counts.finish().loads.values()

        assert (moved.elements, moved.registers, moved.gathered) == (24, 24, 24)

    def test_of_lines_that_a_cache_does_not_have(self) -> None:
        # 4 x 6 elements of in1 are 96 bytes, two lines; 6 x 8 of w1 are 192 bytes, three lines
        def misses(size: int) -> Counter[str]:
            return counted(TILED, CountedMachine(caches_bytes=(size,))).misses[0]

        assert (misses(4096)["in1"], misses(4096)["w1"]) == (2, 3)
        assert misses(64)["w1"] > 3

    def test_of_transactions_and_banks(self) -> None:
        """One warp of 32 threads, one element of a row each: 128 bytes are four sectors, one of a column 32."""
        def of(tile: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, int]:
            net = Net()
            graph = net.graph(net.relu(net.input(32, 32)), dtype="fp32")
            layer, network, counts = whole_layer(graph), varied(graph), Counts()
            program = grid_program(layer, GpuTiles(tile, (0, 1), part, 1, None, 1, "lanes"), 32)
            assert difference(program, layer, network, reference_values(network), counts) == 0
            (loads,), (stores,) = counts.finish().loads.values(), counts.stores.values()
            assert loads.registers == stores.registers == 32 * 32
            return loads.transactions, stores.transactions

        assert of((1, 32), (1, 1)) == (32 * 4, 32 * 4)
        assert of((32, 1), (1, 1)) == (32 * 32, 32 * 32)

    @pytest.mark.parametrize(("rows", "wavefronts"), [(None, 8), (RowPadding(1), 1)])
    def test_of_banks_that_meet_without_padding(self, rows: RowPadding | None, wavefronts: int) -> None:
        """Eight threads read a column of a copy with rows of 32 words: one bank, or eight where rows are padded."""
        net = Net()
        graph = net.graph(net.dense(net.input(8, 32), 4), dtype="fp32")
        layer, network, counts = whole_layer(graph), varied(graph), Counts()
        tiles = GpuTiles((8, 1), (0, 1), (1, 1), 1, 32, 1, "lanes")
        difference(grid_program(layer, tiles, 32, (rows, None)), layer, network, reference_values(network), counts)
        name = next(array for (part, array) in counts.finish().loads if part == SUMS and array.endswith("staged0"))
        moved = counts.loads[SUMS, name]

        assert moved.transactions == wavefronts * moved.elements // 8
        assert counts.copied_bytes((name, "store")) == {("in1", name): 4 * 8 * 32 * 4}  # by each of four blocks


EDITS: dict[str, Callable[[Steps], Steps]] = {
    "no vectors": lambda steps: tuple([each for each in steps if not isinstance(each, Vectorise)]),
    "nothing unrolled": lambda steps: tuple([each for each in steps if not isinstance(each, Unroll)]),
    "sums in memory": lambda steps: tuple([
        replace(each, scope="stack") if isinstance(each, ComputeAt) else each for each in steps
    ]),
    "the depth in twos": lambda steps: (*steps, UnrollReduction("matmul1.sum", 2)),
    "other tiles": lambda steps: tuple([
        replace(each, levels=(Level("space", (0, 1), (4, 4)),)) if isinstance(each, Tile) else each for each in steps
    ]),
    "tiles in another order": lambda steps: tuple([
        replace(each, levels=(Level("space", (1, 0), (4, 2)),)) if isinstance(each, Tile) else each for each in steps
    ]),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_that_changes_code_changes_a_count(edit: str) -> None:
    machine = CountedMachine(caches_bytes=(192,))
    before, after = (counted(steps, machine, rows=8) for steps in (TILED, EDITS[edit](TILED)))

    assert all_of(before) != all_of(after)


def all_of(counts: Counts) -> tuple[object, ...]:
    return counts.executions, counts.bands, counts.loads, counts.stores, counts.spills, counts.misses


class TestMistakes:
    """Trees that are wrong are found out: the interpreter would be no judge else."""

    def test_a_loop_that_ends_too_early_leaves_elements_unwritten(self) -> None:
        layer, graph = product()
        network, program = varied(graph), loop_program(NaiveProgram(layer), ())

        found = difference(replace(program, body=shorter(program.body)), layer, network, reference_values(network))
        assert found == float("inf")

    def test_a_store_beyond_the_end_of_a_buffer_is_refused(self) -> None:
        layer, graph = product()
        program = loop_program(NaiveProgram(layer), TILED)
        small = replace(program, buffers=tuple([replace(each, shape=(1, 4)) if each.scope == "register" else each
                                                for each in program.buffers]))  # fmt: skip

        with pytest.raises(InterpreterError, match=r"'matmul1.sum' of shape \[1, 4\] is stored at 7"):
            difference(small, layer, varied(graph), reference_values(varied(graph)))


def shorter(nodes: Nodes) -> Nodes:
    """Return nodes with the outermost loop of the last stage one iteration shorter."""
    *before, last = nodes
    assert isinstance(last, Loop)
    return (*before, replace(last, extent=last.extent - 1))


def test_iterations_at_once_are_told_in_the_order_of_the_loops() -> None:
    layer, graph = product()
    addresses = list[int]()

    def note(event: Event) -> None:
        if isinstance(event, Access) and event.is_store:
            addresses.append(int(event.addresses[0]))

    interpret(loop_program(NaiveProgram(layer), ()), layer, varied(graph), reference_values(varied(graph)), note)
    first = addresses[4 * 8 : 2 * 4 * 8]  # those of the first iteration of the depth, behind the first values
    assert first == sorted(first)
    assert len(addresses) == 4 * 8 * (1 + 6 + 1)


def test_a_program_of_one_statement_has_no_loops() -> None:
    net = Net()
    graph = net.graph(net.relu(net.input(1)), dtype="fp32")
    layer, network = whole_layer(graph), varied(graph)
    program: LoopProgram = loop_program(NaiveProgram(layer), ())

    assert difference(program, layer, network, reference_values(network)) == 0


def attention(tokens: int, window: int) -> Graph:
    """Return attention of each token to itself and those before it, or to the ``window`` nearest of these."""
    ahead = np.arange(tokens) - np.arange(tokens).reshape(-1, 1)
    return graph_with_bounded_nests(written_out(tokens, "where", kept=(ahead <= 0) & (ahead > -(window or tokens))))


class TestAttention:
    @pytest.mark.parametrize("window", [0, 3])
    def test_that_is_masked_takes_what_the_mask_keeps(self, window: int) -> None:
        graph = attention(13, window)
        network, bounded = executable(graph), 0
        values = reference_values(network)
        for program, layer, own in cpu_programs(graph, network):
            bounded += any(loop.reach for loop in loops_of(program.body))
            assert difference(program, layer, own, {**own.values, **values}) <= TOLERANCE
        assert bounded

    @pytest.mark.parametrize("window", [0, 3, 14])
    def test_with_running_statistics_corrects_its_sums(self, window: int) -> None:
        graph, rows = attention(22, window), UpstreamTiles((0, 1, 2, 3), (1, 1, 1, 1), 3)
        network, layer = executable(graph), whole_layer(graph)
        scores = UpstreamTiles((0, 1, 2, 3), (1, 1, 5, 3), 3)
        tiles = LoopTiles((1, 1, 10, 4), (0, 1, 2, 3), 2, (1, 1, 5, 4), 3, 6, (rows, scores), True)
        program = program_of(layer, tiles, LANES)

        assert program.running
        assert difference(program, layer, network, reference_values(network)) <= TOLERANCE
