"""Counts of the analysis are those of a run: the interpreter does, event by event, what it says in closed form."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dsascape.scheduler.cpu.schedule.steps import cpu_limits, program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.kernels.cost.counted import PartCost
from dsascape.scheduler.kernels.cost.placed import Around
from dsascape.scheduler.kernels.cost.places import Position, Use
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.registers import part_costs
from dsascape.scheduler.kernels.cost.trips import below, iterations
from dsascape.scheduler.kernels.cost.warps import WARPS, requests
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import row_of
from dsascape.scheduler.kernels.loops.counting import CountedMachine, Counts, Part
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.interpreter import interpret
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Nodes, Statement, loops_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads import Graph
from dsascape.workloads.executable import Executable, executable
from dsascape.workloads.operators.registry import Array
from tests.graphs import Net, networks
from tests.scheduler.kernels.drawn import (
    GRID,
    GRIDS,
    LANES,
    NARROW,
    Rows,
    anchored,
    any_tiles,
    changed,
    cpu_programs,
    grid_program,
    grid_programs,
    reference_values,
    varied,
    whole_layer,
)
from tests.scheduler.kernels.test_interpreter import attention
from tests.tiers import examples

ANY = settings(deadline=None, suppress_health_check=list(HealthCheck))
REGISTERS = 16
SAME = 0.02
"""Share of the loads by which the two may differ where nothing sticks out."""
AT_ENDS = 0.4
"""The same where tiles stick out: at ends a run happens to need what it has, which no compiler knows of."""


def compare(program: LoopProgram, layer: Layer, network: Executable, values: Mapping[str, Array]) -> None:
    """Assert that a run's counts are those of the analysis."""
    counts = Counts(CountedMachine(registers=REGISTERS))
    with np.errstate(all="ignore"):
        interpret(program, layer, network, values, counts)
    counts.finish()
    costs = part_costs(Reads(NaiveProgram(layer), program), REGISTERS)
    most = AT_ENDS if sticks_out(program.body) else SAME
    for part in counts.executions:
        assert costs[part].executions == counts.executions[part], part
        assert costs[part].elements == counts.elements[part], part
        assert costs[part].bands == counts.bands[part], part
        assert costs[part].spills >= counts.spills[part] * (1 - AT_ENDS), part
        assert sticks_out(program.body) or costs[part].spills == counts.spills[part], part
        compare_moves(part, costs[part], counts, most)


def compare_moves(part: Part, cost: PartCost, counts: Counts, most: float) -> None:
    for own, counted in ((cost.loads, counts.loads), (cost.stores, counts.stores)):
        arrays = {array for each, array in counted if each == part}
        assert arrays == {array for array, moved in own.items() if moved.elements}, part
        for array in arrays:
            found, wanted = own[array], counted[part, array]
            assert wanted.elements <= found.elements <= wanted.elements * (1 + most), (part, array)
            assert wanted.registers * (1 - SAME) <= found.registers <= wanted.registers * (1 + most), (part, array)
            assert wanted.gathered * (1 - SAME) <= found.gathered <= wanted.gathered * (1 + most), (part, array)
            asked = found.requests()
            if asked is None or found.registers != wanted.registers:
                continue
            further = 0.0 if most == SAME else most  # threads of a warp may begin in several copies of a loop
            assert asked.requests <= wanted.requests <= asked.requests * (1 + further), (part, array)
            assert asked.transactions <= wanted.transactions <= asked.transactions * (1 + further), (part, array)


def test_of_too_many_accesses_to_go_through_conditions_count_by_their_share() -> None:
    """31,250 blocks of 256 threads, the last of which has 64 elements: a warp asks for 4 sectors of 32 bytes."""
    element = Affine(0, (("block", 256), ("thread", 1)))
    around = [Around("block", 31_250, "block", is_in_band=False), Around("thread", 256, "thread", is_in_band=True)]
    use = Use("x", "global", Position(element), (), 4)
    size = 31_249 * 256 + 64
    found = requests(use, around, (Condition(element, size), Condition(Affine(0, (("fixed", 1),)), 9)), WARPS)

    assert found is not None
    assert found.requests == pytest.approx(size / 32, rel=1e-4)
    assert found.transactions == pytest.approx(size / 32 * 4, rel=1e-4)


def sticks_out(nodes: Nodes) -> bool:
    """Whether anything in a tree is under a condition, or goes through part of a loop."""
    bodies = [node.body for node in nodes if not isinstance(node, Statement)]
    guarded = any(isinstance(node, Guard) for node in nodes) or any(map(sticks_out, bodies))
    return guarded or any(loop.reach is not None for loop in loops_of(nodes))


class TestCounts:
    @settings(ANY, max_examples=examples(120))
    @given(drawn=anchored(), data=st.data())
    def test_of_whatever_is_legal_on_cpus_are_those_of_a_run(
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
        compare(program, layer, network, reference_values(network))

    @settings(ANY, max_examples=examples(120))
    @given(drawn=any_tiles())
    def test_of_whatever_is_legal_on_grids_are_those_of_a_run(self, drawn: tuple[str, GpuTiles, Rows]) -> None:
        name, tiles, rows = drawn
        net = Net()
        graph = net.graph(GRIDS[name](net), dtype="fp32")
        layer, network = whole_layer(graph), varied(graph)
        program = grid_program(layer, tiles, GRID.spec.sms.warp, rows)
        assume(not illegal(program, gpu_limits(GRID)))
        compare(program, layer, network, reference_values(network))

    @settings(ANY, max_examples=examples(40, few=5))
    @given(graph=networks(dtype="fp32"))
    def test_of_the_built_in_choices_are_those_of_a_run(self, graph: Graph) -> None:
        values = reference_values(varied(graph))
        for programs in (cpu_programs(graph), grid_programs(graph)):
            for program, layer, network in programs:
                compare(program, layer, network, {**network.values, **values})


    @pytest.mark.parametrize("window", [0, 3])
    def test_of_masked_attention_are_those_of_a_run(self, window: int) -> None:
        graph = attention(13, window)
        network = executable(graph)
        values = reference_values(network)
        for program, layer, own in cpu_programs(graph, network):
            compare(program, layer, own, {**own.values, **values})

    def test_of_running_statistics_are_those_of_a_run(self) -> None:
        graph, rows = attention(22, 3), UpstreamTiles((0, 1, 2, 3), (1, 1, 1, 1), 3)
        layer, scores = whole_layer(graph), UpstreamTiles((0, 1, 2, 3), (1, 1, 5, 3), 3)
        tiles = LoopTiles((1, 1, 10, 4), (0, 1, 2, 3), 2, (1, 1, 5, 4), 3, 6, (rows, scores), True)
        network = executable(graph)
        compare(program_of(layer, tiles, LANES), layer, network, reference_values(network))


class TestIterations:
    @settings(ANY, max_examples=examples(400))
    @given(st.data())
    def test_are_those_that_meet_all_conditions(self, data: st.DataObject) -> None:
        extents = {name: data.draw(st.integers(1, 6)) for name in "abcd"}
        strides = st.integers(-5, 5).filter(bool)
        conditions = [
            Condition(Affine(data.draw(st.integers(-3, 3)), tuple([(name, data.draw(strides)) for name in names])),
                      data.draw(st.integers(-6, 20)))
            for names in data.draw(st.lists(st.sampled_from(["a", "ab", "abc", "bc", "cd", "d"]), max_size=3))
        ]  # fmt: skip
        points = np.stack(np.meshgrid(*[np.arange(each) for each in extents.values()]), axis=-1).reshape(-1, 4)
        at = {name: points[:, place] for place, name in enumerate(extents)}
        holds = [
            each.value.offset + sum([at[name] * stride for name, stride in each.value.terms]) < each.limit
            for each in conditions
        ]  # fmt: skip
        wanted = int(np.all(np.stack([np.ones(len(points), bool), *holds]), axis=0).sum())

        assert iterations(extents, conditions, extents) == wanted

    @settings(ANY, max_examples=examples(100))
    @given(st.data())
    def test_of_columns_are_those_of_each_row(self, data: st.DataObject) -> None:
        rows = data.draw(st.integers(1, 5))
        column = st.lists(st.integers(1, 6), min_size=rows, max_size=rows).map(np.array)
        terms = [(data.draw(column), data.draw(column)) for _ in range(data.draw(st.integers(1, 3)))]
        terms.sort(key=lambda each: -int(each[0].max()))
        limit = data.draw(column) * 3

        found = below(terms, limit)

        for row in range(rows):
            own = sorted([(int(stride[row]), int(extent[row])) for stride, extent in terms], reverse=True)
            assert row_of(found, row) == below(own, int(limit[row]))
