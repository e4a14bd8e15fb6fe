"""Softmax and layer norm as PyTorch's kernels read their rows."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.library_rows import Rows, kept_share, rows_ps
from dsascape.workloads import Graph
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.tiers import examples

T4 = load_hardware("t4", Gpu)


def softmax(rows: int, columns: int) -> Graph:
    return single_operator(SingleOperator("softmax", "Softmax", ((rows, columns),), attributes={"axis": -1}))


def test_the_share_that_the_l2_keeps_by_hand() -> None:
    """40 SMs with 8 blocks of 128 threads, rows of 10 KiB, of which half as much is written between two passes."""
    between = 40 * 8 * 10240 * 1.5 / (4 << 20)

    assert kept_share(Rows(65536, 10240, 2, 128), T4) == pytest.approx((1.2 - between) / 0.7)
    assert kept_share(Rows(65536, 2048, 2, 128), T4) == 1
    assert kept_share(Rows(65536, 65536, 2, 128), T4) == 0


def test_a_long_softmax_reads_its_rows_three_times_from_dram() -> None:
    once, lost = 2 * 8192 * 65536.0, Rows(8192, 65536, 3, 512)
    more_us = (rows_ps(lost, T4, once) - rows_ps(lost._replace(passes=1), T4, once)) / 1e6

    assert more_us == pytest.approx(once / (320e3 * 0.794 * 0.926), rel=1e-6)


@pytest.mark.parametrize(("columns", "times"), [(1024, 1.0), (16384, 2.0)])
def test_only_pytorch_reads_again(columns: int, times: float) -> None:
    network = softmax(16 << 20 >> columns.bit_length(), columns)
    eager, fused = [
        simulate(network, "t4", policy, dtype="fp32").record.expected_latency_s for policy in ("eager", "fixed-pattern")
    ]

    assert eager / fused == pytest.approx(times, rel=0.05)


@settings(max_examples=examples(30), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(1, 1 << 20), st.integers(4, 1 << 18), st.sampled_from([(2, 128), (3, 256), (3, 512)]))
def test_a_larger_l2_keeps_no_less(number: int, row_bytes: int, kernel: tuple[int, int]) -> None:
    rows = Rows(number, row_bytes, *kernel)
    larger = T4.model_copy(update={"l2": T4.l2.model_copy(update={"capacity_bytes": 2 * T4.l2.capacity_bytes})})

    assert 0 <= kept_share(rows, T4) <= kept_share(rows, larger) <= 1
