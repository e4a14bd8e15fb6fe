"""Products of few rows, as of tokens that are decoded: what moves sets the time, whoever computes them."""

import functools
import itertools
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.expected import expected_ps
from dsascape.hw_models import Gpu, gpu_energy, gpu_machine, load_hardware, preset_names, simulate
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.lower import lower
from tests.scheduler.gpu.running import costs_of, planned
from tests.scheduler.small import product
from tests.tiers import examples

PRESETS = sorted(name for name in preset_names() if isinstance(load_hardware(name), Gpu))
COLUMNS, DEPTH = 16_384, 2304
"""Size of the weights: 72 MiB in 16 bits, the capacity of the largest L2 cache among the presets."""
FEW = 8
"""Rows whose products move the same bytes, but for less than one in a hundred."""


class Times(NamedTuple):
    """Bound and expected latency of a product, in microseconds."""

    bound: float
    expected: float
    waits_for_dram: bool


@functools.cache
def times_us(preset: str, rows: int, dtype: str = "fp16", *, are_columns: bool = False) -> Times:
    """Return the times of so many rows by the weights."""
    spec = load_hardware(preset, Gpu)
    graph = product(COLUMNS, rows, DEPTH, dtype) if are_columns else product(rows, COLUMNS, DEPTH, dtype)
    costs = costs_of(graph, spec)
    schedule = planned(costs)
    program = lower(schedule, costs)
    result = simulate(program, gpu_machine(spec), gpu_energy(spec))
    expected = expected_ps(schedule, program, result, spec, GPU.library(spec, None, schedule))
    return Times(result.makespan_ps / 1e6, expected / 1e6, result.bottleneck == "dram")


def check_even(preset: str, rows: list[int]) -> None:
    """Check that more rows are hardly ever faster, and that few rows, which move equally much, take equally long."""
    times = {each: times_us(preset, each) for each in sorted(rows)}
    for (fewer, before), (more, after) in itertools.combinations(times.items(), 2):
        shown = preset, fewer, before, more, after
        assert before.bound <= 1.05 * after.bound, shown
        assert before.expected <= 1.05 * after.expected, shown
        if more <= FEW and after.waits_for_dram:
            assert after.bound <= 1.06 * before.bound, shown
            assert after.expected <= 1.08 * before.expected, shown


@settings(max_examples=examples(24, few=1), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(preset=st.sampled_from(PRESETS), few=st.integers(1, FEW), more=st.integers(2, 64))
def test_products_of_equal_traffic_take_equally_long(preset: str, few: int, more: int) -> None:
    check_even(preset, [few, more])


@pytest.mark.night
@pytest.mark.parametrize("preset", PRESETS)
def test_no_number_of_rows_up_to_64_stands_out(preset: str) -> None:
    check_even(preset, list(range(1, 65)))


@pytest.mark.parametrize(
    ("preset", "dtype", "rows"),
    [("a100", "fp16", 4), ("h100", "bf16", 2), ("t4", "int8", 5), ("t4", "fp16", 7), ("p100", "fp32", 3)],
)
def test_few_rows_are_expected_near_their_bound(
    preset: str, dtype: str, rows: int
) -> None:
    """Tensor units pad rows to whole instructions, lanes have kernels for few: the weights' way is all that counts."""
    for are_columns in (False, True):
        found = times_us(preset, rows, dtype, are_columns=are_columns)

        assert found.bound <= found.expected <= 1.2 * found.bound + 4
