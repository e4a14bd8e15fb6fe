"""Lines that a program touches, and what caches pass on of them, against an exact cache that it runs through."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.caches.trees import passed_by
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cost.memory import Arrays, Memory, memory_of
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import networks
from tests.hw_models.cpu.cpus import cpu
from tests.scheduler.kernels.traced import Traced, traced
from tests.tiers import examples

LINE_BYTES = 64
VIEW = CpuView(cpu(), CpuTuning(threads=1))
MOST_ITERATIONS = 60_000


def programs(graph: Graph) -> list[tuple[Layer, LoopProgram]]:
    """Return the built-in programs of a network's kernels, of those that are quick to run through."""
    runs = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(VIEW, Analysis(graph), "fp32")).runs
    found = [(kernel.layer, kernel.program) for kernel in runs]
    return [(layer, program) for layer, program in found if layer.whole_macs < MOST_ITERATIONS]


def memory(layer: Layer, program: LoopProgram) -> tuple[Memory, Arrays]:
    arrays = Arrays.of(program, (*layer.inputs, *layer.outputs))
    part_of = {stage.name: 0 for stage in program.stages}
    return memory_of(Reads(NaiveProgram(layer), program), arrays, LINE_BYTES, part_of, {}), arrays


def run_through(layer: Layer, program: LoopProgram, lines: int) -> Traced:
    _, arrays = memory(layer, program)
    return traced(NaiveProgram(layer), program, arrays, LINE_BYTES, lines)


def passed(layer: Layer, program: LoopProgram, cache: CacheShape) -> float:
    found = passed_by(memory(layer, program)[0].body, cache)
    return sum([sum(each.fetched) + sum(each.written) for each in found.values()])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(most_blocks=1, dtype="fp32"))
def test_lines_of_each_array_are_those_that_the_program_touches(graph: Graph) -> None:
    for layer, program in programs(graph):
        found, _ = memory(layer, program)
        for array, lines in run_through(layer, program, 1 << 20).touched.items():
            assert found.body.whole[array].count == pytest.approx(len(lines), rel=0.15, abs=3)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(most_blocks=1, dtype="fp32"), lines=st.integers(8, 600))
def test_what_passes_is_that_of_an_exact_cache_but_for_steps(graph: Graph, lines: int) -> None:
    """Where half as many lines, or twice as many, pass about as much: elsewhere some body only just fits."""
    for layer, program in programs(graph):
        few, exact, many = [run_through(layer, program, each).total for each in (lines // 2, lines, 2 * lines)]
        if few > 1.1 * exact or exact > 1.1 * many:
            continue
        assert passed(layer, program, CacheShape(lines)) == pytest.approx(exact, rel=0.3, abs=16)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    graph=networks(most_blocks=1, dtype="fp32"), ways=st.sampled_from((2, 4, 8)), sets=st.sampled_from((16, 64, 256)),
    is_lru=st.booleans(), is_randomly_placed=st.booleans(),
)  # fmt: skip
def test_a_larger_cache_passes_no_more(
    graph: Graph, ways: int, sets: int, is_lru: bool, is_randomly_placed: bool
) -> None:
    small, ways_more, sets_more = [
        CacheShape(way * each, each, is_lru, is_randomly_placed)
        for way, each in ((ways, sets), (2 * ways, sets), (ways, 2 * sets))
    ]
    for layer, program in programs(graph):
        least = passed(layer, program, small) * (1 + 1e-9)
        assert passed(layer, program, ways_more) <= least
        assert passed(layer, program, sets_more) <= least
