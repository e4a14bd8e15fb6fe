"""Loop programs: what steps make of a naive program, how it prints, what is legal, and that it survives JSON."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import cpu_limits, program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine, Range, loop_ranges, read_ranges
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.files import program_json, read_program, read_steps, steps_json
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Loop
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Inline,
    Layout,
    Level,
    Parallel,
    PartialSums,
    Prefetch,
    ShareReduction,
    Step,
    Tensorise,
    Tile,
    Unroll,
    Vectorise,
    without_sizes,
)
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.hw_models.cpu.cpus import cpu
from tests.tiers import examples

VIEW = CpuView(cpu(), CpuTuning(chunks_per_thread=1))
LANES = VIEW.lanes("fp32")


def layer(graph: Graph) -> Layer:
    found = layer_of(Analysis(graph), range(len(graph.ops)))
    assert found is not None
    return found


def convolution(channels: int = 16) -> Layer:
    net = Net()
    return layer(net.graph(net.relu(net.conv(net.input(1, 8, 12, 8), channels)), dtype="fp32"))


def kernels(graph: Graph) -> tuple[CpuKernel, ...]:
    return kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(VIEW, Analysis(graph), "fp32")).runs


TILES = LoopTiles((1, 8, 4, 8), (1, 0, 2, 3), 3, (1, 8, 1, 4), 1, None)


def test_a_tiled_convolution_prints_as_one_would_write_it_down() -> None:
    assert str(program_of(convolution(), TILES, 4)).splitlines() == [
        "w1: panels of 8 along d0",
        "parallel for p0 in 6  # i10 in 2 * i20 in 3:",
        "  stack in1.copy[1, 8, 6, 10]  # 1,920 bytes",
        "  for d10 in 8:",
        "    for d20 in 6:",
        "      for d30 in 5:",
        "        vector d31 in 2:",
        "          in1.copy[0, d10, 4*i20+d20-1, 2*d30+d31-1] = in1[0, d10, 4*i20+d20-1, 2*d30+d31-1]",
        "  for i21 in 4:",
        "    for i30 in 2:",
        "      register conv1.sum[1, 1, 4, 8]  # 128 bytes",
        "      unrolled for o10 in 4:",
        "        unrolled for oc0 in 2:",
        "          vector oc1 in 4:",
        "            conv1.sum[0, 4*i20+i21, 4*i30+o10, 8*i10+4*oc0+oc1] = first value",
        "      for k00 in 3:",
        "        for k10 in 3:",
        "          for ic0 in 8:",
        "            unrolled for o11 in 4:",
        "              unrolled for oc2 in 2:",
        "                vector oc3 in 4:",
        "                  conv1.sum[0, 4*i20+i21, 4*i30+o11, 8*i10+4*oc2+oc3] +="
        " in1.copy[0, ic0, 4*i20+i21+k00-1, 4*i30+o11+k10-1], w1[8*i10+4*oc2+oc3, ic0, k00, k10]",
        "      unrolled for i31 in 4:",
        "        unrolled for i11 in 2:",
        "          vector i12 in 4:",
        "            relu1[0, 4*i20+i21, 4*i30+i31, 8*i10+4*i11+i12] ="
        " conv1[0, 8*i10+4*i11+i12, 4*i20+i21, 4*i30+i31]",
    ]


def test_a_copy_covers_the_halo_of_its_tile() -> None:
    (copy,) = [each for each in program_of(convolution(), TILES, 4).buffers if each.name == "in1.copy"]

    # a tile of 4 rows of 8 pixels with windows of 3 x 3; one row and one pixel in front of it
    assert copy.shape == (1, 8, 6, 10)
    assert [str(each) for each in copy.first] == ["0", "0", "4*i20-1", "-1"]


def test_a_softmax_is_computed_row_by_row_with_partial_sums() -> None:
    net = Net()
    (kernel,) = kernels(net.graph(net.softmax(net.input(6, 64)), dtype="fp32"))
    text = str(kernel.program)

    assert text.splitlines()[0] == "for i00 in 6:"
    assert text.count("# 64 bytes") == 2  # 4 vectors of partial maxima, and of partial sums
    assert text.count("vector s") == 2 * (1 + 1 + 2 + 1)  # first, update, foldings in 8, 4 and 2


class TestRanges:
    def test_of_a_window_begin_in_front_of_it(self) -> None:
        nest = convolution().nests[-1].nest
        tile = (Range.whole(1), Range.whole(8), Range(Affine(0, (("h", 4),)), 4), Range.whole(8))
        rows = read_ranges(nest.reads[0], loop_ranges(nest, tile, {}), {"h": 2})[2]

        assert (str(rows.first), rows.extent) == ("4*h-1", 6)

    def test_that_move_apart_are_joined_to_the_whole(self) -> None:
        one, other = Range(Affine(0, (("h", 4),)), 4), Range(Affine(0, (("h", 2),)), 4)
        extents = {"h": 2}

        assert one.joined(other, 12, extents) == Range.whole(12)
        assert one.joined(Range(Affine(2, (("h", 4),)), 6), 12, extents) == Range(Affine(0, (("h", 4),)), 8)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_programs_of_any_network_are_legal_and_survive_writing_and_reading(graph: Graph) -> None:
    for kernel in kernels(graph):
        program = kernel.program
        written = json.loads(json.dumps(program_json(program)))

        assert illegal(program, cpu_limits(VIEW)) == ()
        assert read_program(written) == program
        assert loop_program(NaiveProgram(kernel.layer), read_steps(written["steps"])) == program


def test_steps_without_sizes_are_a_sketch_that_makes_no_program() -> None:
    own = convolution()
    sketch = without_sizes(steps_of(own, TILES, 4))

    assert all(level.sizes is None for step in sketch if isinstance(step, Tile) for level in step.levels)
    with pytest.raises(StepError, match=r"Tile: relu1: has a level without sizes"):
        loop_program(NaiveProgram(own), sketch)


@pytest.mark.parametrize(("written", "message"), [
    (5, "steps: needs a list of steps"),
    ([{"step": "Tiled"}], "steps.0: step: has 'Tiled'; needs one of Inline, CacheRead"),
    ([{"step": "Unroll", "stage": "x", "most": "2"}], "steps.0.most: Input should be a valid integer"),
    ([{"step": "Unroll", "stage": "x", "least": 2}], "steps.0: least: is unknown; Unroll has most, stage"),
])  # fmt: skip
def test_what_is_no_list_of_steps_is_refused_with_the_first_mistake(written: object, message: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{message}"):
        read_steps(written)


def test_a_step_of_a_stage_that_is_not_there_is_refused() -> None:
    with pytest.raises(StepError, match=r"Unroll: the kernel has no stage 'conv9'"):
        loop_program(NaiveProgram(convolution()), (Unroll("conv9"),))


class TestIllegal:
    def reasons(self, *changed: object) -> tuple[str, ...]:
        own = convolution()
        steps = [*steps_of(own, TILES, 4), *changed]
        return illegal(loop_program(NaiveProgram(own), tuple(steps)), cpu_limits(VIEW))  # type: ignore[arg-type]

    def test_a_stage_that_is_read_before_it_is_computed(self) -> None:
        net = Net()
        (kernel,) = kernels(net.graph(net.softmax(net.input(6, 64)), dtype="fp32"))
        program = kernel.program
        (rows,) = program.body
        assert isinstance(rows, Loop)
        backwards = replace(program, body=(replace(rows, body=rows.body[::-1]),))

        assert illegal(program, cpu_limits(VIEW)) == ()
        assert any("before that is computed" in reason for reason in illegal(backwards, cpu_limits(VIEW)))

    def test_a_parallel_loop_inside_of_another(self) -> None:
        (reason,) = self.reasons(Parallel("in1.copy", 3))

        assert reason.endswith("is parallel inside of another loop")

    def test_a_reduction_that_its_tiles_do_not_divide(self) -> None:
        own = convolution()
        steps = tuple([
            replace(step, levels=tuple([replace(each, sizes=(1, 1, 3)) for each in step.levels]))
            if isinstance(step, Tile) and step.stage == "conv1.sum" else step
            for step in steps_of(own, TILES, 4)
        ])  # fmt: skip
        reasons = illegal(loop_program(NaiveProgram(own), steps), cpu_limits(VIEW))

        assert any(reason.startswith("the reduction ") and " ends at " in reason for reason in reasons)

    def test_sums_that_registers_cannot_hold(self) -> None:
        wide = replace(TILES, tile=(1, 256, 12, 8), register=(1, 256, 12, 8))

        assert any(
            reason.startswith("what it keeps in register takes 98,304 bytes")
            for reason in illegal(program_of(convolution(256), wide, 1), cpu_limits(VIEW))
        )

    def test_what_is_unrolled_into_too_many_statements(self) -> None:
        own = convolution(64)
        wide = replace(TILES, tile=(1, 64, 12, 8), register=(1, 64, 12, 8))

        assert any(
            "unrolled loops make" in reason for reason in illegal(program_of(own, wide, 1), cpu_limits(VIEW))
        )


RELU, SUMS = "relu1", "conv1.sum"


@pytest.mark.parametrize(("step", "message"), [
    (ComputeAt("in1.copy", "relu1", 0, rounded=(1, 1)), "ComputeAt: 'in1.copy' has a rank of 4; the step, of 2"),
    (ComputeAt("in1.copy", "in1.copy", 1), "'in1.copy' is computed inside of 'in1.copy', which has no loops behind it"),
    (ComputeAt(SUMS, "in1.copy", 1), "'conv1.sum' is computed inside of 'in1.copy', which has no loops behind it"),
    (ComputeAt(SUMS, RELU, 2), "'in1.copy' is computed inside of 'relu1'; 'conv1.sum' reads it, too"),
    (Inline(SUMS), "Inline: 'conv1.sum' has a buffer"),
    (ComputeAt(RELU, RELU, 1), "'relu1' lies in stack: so do results of the kernel in global, and no others"),
    (ComputeAt(SUMS, RELU, 2, "global"), "ComputeAt: 'conv1.sum' lies in global: so do results"),
    (Bind(SUMS, 0, 1), "Bind: 'conv1.sum' is of sums: the stage that reads them is on blocks and threads"),
    (ShareReduction(SUMS, 2, (4,)), "ShareReduction: conv1.sum: is not computed inside of loops of threads"),
    (ShareReduction(SUMS, 2, (0,)), "ShareReduction: 'conv1.sum' has the reduction loops [4, 5, 6]"),
    (Prefetch(RELU, 1), "Prefetch: 'relu1' is no copy"),
    (Tensorise(RELU, 16, 8, 16), "Tensorise: 'relu1' is no sum of products"),
    (Tile(RELU, (Level("space", (0, 9), (1, 1)),)), "has [0, 1, 2, 3] for space; a level has [0, 9]"),
    (Tile(RELU, (Level("space", (0, 1), (1,)),)), "a level of 'relu1' has 2 loops, 1 size"),
    (Tile(RELU, (Level("space", (0,), (0,)),)), "has 0; needs numbers from 1"),
    (Tile(RELU, (Level("reduction", (0,), (1,)),)), "has [] for reduction; a level has [0]"),
    (PartialSums(SUMS, 3, (4,)), "folds halves: 3 is no power of two"),
    (PartialSums(SUMS, 2, (0,)), "has the reduction loops"),
    (PartialSums(SUMS, 4, (4, 5, 6)), "Tile: conv1.sum: partial sums go along its loop 5"),
    (Parallel(SUMS, 1), "Parallel: conv1.sum: a reduction is among its outermost loops"),
    (Vectorise(RELU, 0), "has 0; needs numbers from 1"),
    (Layout(SUMS, "in1", 0, 4, (1, 2, 3)), "'in1' is no weight that 'conv1.sum' reads"),
    (Layout(SUMS, "w1", 0, 4, (1, 2, 2)), "has dimensions 0 to 3, each of which it needs once"),
    (CacheRead(RELU, "in1", SUMS), "'relu1' is no name for a new stage"),
    (CacheWrite("x", SUMS), "'conv1.sum' is no map from element to element"),
])  # fmt: skip
def test_a_step_that_does_not_fit_is_refused_by_name(step: Step, message: str) -> None:
    own = convolution()
    steps = steps_of(own, replace(TILES, parallel=0), 4)
    with pytest.raises(StepError, match=re.escape(message)):
        loop_program(NaiveProgram(own), (*steps, step))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_steps_with_any_numbers_and_names_make_a_program_or_are_refused(data: st.DataObject) -> None:
    own = convolution()
    written = json.loads(json.dumps(steps_json(steps_of(own, TILES, 4))))
    names = ["relu1", "conv1", SUMS, "in1.copy", "in1", "w1", "other"]

    def disturbed(value: object) -> object:
        if isinstance(value, dict):
            return {key: value[key] if key == "step" else disturbed(value[key]) for key in value}
        if isinstance(value, list):
            return [disturbed(each) for each in value]
        if data.draw(st.integers(0, 60)):
            return value
        if type(value) is int:
            return data.draw(st.integers(-2, 9))
        return data.draw(st.sampled_from(names)) if value in names else value

    steps = [disturbed(each) for each in written]
    try:
        program = loop_program(NaiveProgram(own), read_steps(steps))
    except (StepError, ScheduleError):
        return
    illegal(program, cpu_limits(VIEW))


class TestKeys:
    def test_of_equal_tasks_do_not_depend_on_names(self) -> None:
        net = Net()
        before = net.unary("Tanh", net.input(1, 8, 12, 8))
        graph = net.graph(net.relu(net.conv(net.unary("Sigmoid", before), 16)), dtype="fp32")
        last = layer_of(Analysis(graph), (2, 3))
        assert last is not None
        order = tuple(graph.tensors[last.inputs[0]].order)

        own = NaiveProgram(convolution()).key("fp32", "cpu")
        assert (NaiveProgram(last).key("fp32", "cpu") == own) == (order == (0, 1, 2, 3))

    def test_of_other_tasks_are_others(self) -> None:
        keys = {
            NaiveProgram(convolution()).key("fp32", "cpu"), NaiveProgram(convolution()).key("fp16", "cpu"),
            NaiveProgram(convolution()).key("fp32", "gpu"), NaiveProgram(convolution(17)).key("fp32", "cpu"),
        }  # fmt: skip

        assert len(keys) == 4

    def test_are_the_same_in_every_process(self) -> None:
        assert NaiveProgram(convolution()).key("fp32", "cpu") == "5b9a719cea7932c2"
