"""Programs of a lattice are those of its candidates, row by row, and so are their counts."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.scheduler.kernels.cost.counted import Move, Part, PartCost
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.registers import part_costs
from dsascape.scheduler.kernels.loops.affine import Range
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import SketchError, StepError
from dsascape.scheduler.kernels.loops.columns import Column, Size, row_of
from dsascape.scheduler.kernels.loops.lattice import by_shape, lattice_programs, row_program, row_taken, rows_of
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import loops_of
from dsascape.scheduler.kernels.loops.plans import Plans
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import ComputeAt, Inline, Step, Steps, Tile
from dsascape.workloads import Graph
from tests.graphs import Net, networks
from tests.scheduler.kernels.drawn import LANES, anchored, cpu_programs, whole_layer
from tests.tiers import examples

ANY = settings(deadline=None, suppress_health_check=list(HealthCheck))
REGISTERS = 16


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return records with loops called otherwise."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, tuple):
        return tuple([renamed(each, names) for each in value])
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: renamed(getattr(value, each.name), names) for each in fields(value)})
    return value


def canonical(program: LoopProgram) -> tuple[Any, ...]:
    """Return what a program consists of, loops numbered in the order in which they stand."""
    found = [name for loop in loops_of(program.body) for name in (loop.name, *[each for each, _ in loop.fused])]
    names = {name: f"loop {number}" for number, name in enumerate(dict.fromkeys(found))}
    return program.stages, renamed(program.buffers, names), program.layouts, renamed(program.body, names), program.steps


@st.composite
def lattices(draw: st.DrawFn, steps: Steps) -> Steps:
    """Draw columns of sizes in place of those of levels of elements, and of a depth in steps."""
    rows = draw(st.integers(8, 32))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def column(size: int) -> Any:
        if size == 1 or draw(st.integers(0, 3)) == 0:
            return size
        return generator.integers(1, max(2 * size, 2), rows, dtype=np.int64)

    def multiple(size: int) -> Any:
        return size * generator.integers(1, 4, rows, dtype=np.int64)

    found: list[Step] = []
    for step in steps:
        if isinstance(step, Tile) and step.levels:
            levels = []
            for level in step.levels:
                assert level.sizes is not None
                vary = multiple if draw(st.booleans()) else column
                levels.append(replace(level, sizes=tuple(map(vary, level.sizes))) if level.axes == "space" or
                              level.sizes != (1,) * len(level.sizes) else level)
            found.append(replace(step, levels=tuple(levels)))
        elif isinstance(step, ComputeAt) and step.rounded is not None:
            found.append(replace(step, rounded=tuple(map(multiple, step.rounded))))
        else:
            found.append(step)
    return tuple(found)


def compare(naive: NaiveProgram, steps: Steps, rows: int) -> int:
    """Assert that programs and errors of a lattice are those of its rows; return how many programs there are."""
    seen: list[int] = []
    programs = 0
    for made, own in lattice_programs(naive, steps):
        seen += own.tolist()
        programs += 1
        for place, row in enumerate(own.tolist()):
            if isinstance(made, StepError):
                with pytest.raises(StepError, match=re.escape(str(made))):
                    loop_program(naive, row_taken(steps, row))
            else:
                wanted = loop_program(naive, row_taken(steps, row))
                assert canonical(row_program(made, place)) == canonical(wanted)
    assert sorted(seen) == list(range(rows))
    return programs


def costs_of_row(costs: Mapping[Part, PartCost], row: int) -> dict[Part, Any]:
    """Return all counts of one candidate, of loops of several iterations."""

    def number(size: Size) -> int:
        return row_of(size, row)

    def several(sizes: tuple[Size, ...], around: tuple[Size, ...]) -> list[int]:
        return [number(size) for size, extent in zip(sizes, around, strict=True) if number(extent) > 1]

    def of_move(move: Move) -> tuple[Any, ...]:
        counts = [number(each) for each in (move.registers, move.lanes, move.run)]
        around, goes_on = several(move.around, move.around), several(move.goes_on, move.around)
        return *counts, move.is_gathered, around, goes_on, move.element_bytes, move.moves_with_depth

    return {
        part: (
            [number(each) for each in (cost.executions, cost.elements, cost.bands, cost.spills)], cost.operations,
            {(kind, array): ([number(each) for each in (moved.elements, moved.registers, moved.gathered)],
                             [of_move(each) for each in moved.moves])
             for kind, own in enumerate((cost.loads, cost.stores)) for array, moved in own.items()},
            [(number(each.bands), number(each.accumulators), several(each.around, each.around))
             for each in cost.in_bands],
        )
        for part, cost in costs.items()
    }  # fmt: skip


def compare_costs(naive: NaiveProgram, steps: Steps) -> None:
    """Assert that counts of a lattice are those of its rows."""
    for made, own in by_shape(steps, lambda each: part_costs(Reads(naive, loop_program(naive, each)), REGISTERS)):
        for place, row in enumerate(own.tolist()):
            if not isinstance(made, StepError):
                wanted = part_costs(Reads(naive, loop_program(naive, row_taken(steps, row))), REGISTERS)
                assert costs_of_row(made, place) == costs_of_row(wanted, 0)


def test_an_error_that_has_nothing_to_do_with_sizes_is_met_once() -> None:
    asked = []

    def never(own: Column) -> None:
        asked.append(len(own))
        raise SketchError("fits at no sizes")

    answers = list(by_shape(np.arange(5), never))

    assert [(str(error), rows.tolist()) for error, rows in answers] == [("fits at no sizes", [0, 1, 2, 3, 4])]
    assert asked == [5]


@settings(ANY, max_examples=examples(60))
@given(graph=networks())
def test_what_is_needed_of_a_stage_does_not_depend_on_what_else_is_asked(graph: Graph) -> None:
    layer = whole_layer(graph)
    naive = NaiveProgram(layer)
    inlined = [Inline(name) for name, stage in naive.stages.items() if stage.kind == "map" and name != layer.sink.name]
    plans, box = Plans(naive, tuple(inlined)), tuple(map(Range.whole, layer.sink.shape))
    every = plans.demanded(layer.sink.name, 0, box, {}, {}, naive.stages)

    for name in every.keys() & naive.stages.keys():
        assert plans.demanded(layer.sink.name, 0, box, {}, {}, [name])[name] == every[name]


class TestLattices:
    @settings(ANY, max_examples=examples(120))
    @given(drawn=anchored(), data=st.data())
    def test_programs_are_those_of_their_rows(self, drawn: tuple[Graph, LoopTiles], data: st.DataObject) -> None:
        graph, tiles = drawn
        layer = whole_layer(graph)
        steps = data.draw(lattices(steps_of(layer, tiles, LANES)))

        compare(NaiveProgram(layer), steps, rows_of(steps))

    @settings(ANY, max_examples=examples(120))
    @given(drawn=anchored(), data=st.data())
    def test_counts_are_those_of_their_rows(self, drawn: tuple[Graph, LoopTiles], data: st.DataObject) -> None:
        graph, tiles = drawn
        layer = whole_layer(graph)
        steps = data.draw(lattices(steps_of(layer, tiles, LANES)))

        compare_costs(NaiveProgram(layer), steps)


class TestOtherKernels:
    @settings(ANY, max_examples=examples(60, few=5))
    @given(st.data())
    def test_of_two_convolutions_in_one_are_those_of_their_rows(self, data: st.DataObject) -> None:
        net, size = Net(), data.draw(st.sampled_from([1, 3]))
        graph = net.graph(net.conv(net.relu(net.conv(net.input(1, 5, 9, 7), 6, 3)), 8, size), dtype="fp32")
        layer, naive = whole_layer(graph), NaiveProgram(whole_layer(graph))
        front = UpstreamTiles(tuple(data.draw(st.permutations(range(4)))), (1, LANES, 2, 1), 1)
        order = tuple(data.draw(st.permutations(range(4))))
        parallel = data.draw(st.integers(0, 4))
        tiles = LoopTiles((1, 2 * LANES, 4, 4), order, parallel, (1, LANES, 2, 1), 1, None, (front,))
        steps = data.draw(lattices(steps_of(layer, tiles, LANES)))

        compare(naive, steps, rows_of(steps))
        compare_costs(naive, steps)

    @settings(ANY, max_examples=examples(60, few=5))
    @given(st.data())
    def test_of_a_product_in_steps_of_its_depth_are_those_of_their_rows(self, data: st.DataObject) -> None:
        net = Net()
        graph = net.graph(net.relu(net.dense(net.input(12, 24), 16)), dtype="fp32")
        layer, naive = whole_layer(graph), NaiveProgram(whole_layer(graph))
        order = tuple(data.draw(st.permutations(range(2))))
        tiles = LoopTiles((6, 2 * LANES), order, data.draw(st.integers(0, 2)), (3, LANES), 1, 8)
        steps = data.draw(lattices(steps_of(layer, tiles, LANES)))

        compare(naive, steps, rows_of(steps))
        compare_costs(naive, steps)

    @settings(ANY, max_examples=examples(40, few=5))
    @given(name=st.sampled_from(["depthwise", "softmax", "two convolutions"]), data=st.data())
    def test_of_built_in_choices_are_those_of_their_rows(self, name: str, data: st.DataObject) -> None:
        net = Net()
        x = net.input(1, 5, 9, 7)
        x = net.depthwise(x) if name == "depthwise" else net.softmax(x) if name == "softmax" else (
            net.conv(net.relu(net.conv(x, 6)), 8)
        )  # fmt: skip
        for program, layer, _ in cpu_programs(net.graph(x, dtype="fp32")):
            steps = data.draw(lattices(program.steps))
            naive = NaiveProgram(layer)
            compare(naive, steps, rows_of(steps))
            compare_costs(naive, steps)
