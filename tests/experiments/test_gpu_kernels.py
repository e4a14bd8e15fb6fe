"""Single kernels that others measured, and the same operators simulated."""

from collections import Counter

import pytest

from dsascape.experiments.papers.gpu_kernels import BLIND, DEVELOPMENT, HALVES, Measured, measured, simulated
from dsascape.hw_models import Gpu, load_hardware


def seconds_at_peak(each: Measured) -> float:
    """Return the seconds in which the lanes of a card, all busy at the peak clock, compute a product."""
    sms = load_hardware(each.card, Gpu).sms
    macs = (each.batch or 1) * each.rows * (each.depth or 0) * each.columns
    return macs / (sms.count * sms.lanes["fp32"] * sms.clock_hz)


def test_a_card_is_of_one_half_and_no_case_is_there_twice() -> None:
    assert not set(DEVELOPMENT) & set(BLIND)
    found = list(measured(HALVES["both"]))
    keys = Counter((e.card, e.operator, e.batch, e.rows, e.depth, e.columns) for e in found)

    assert {each.card for each in found} == set(DEVELOPMENT) | set(BLIND)
    assert set(keys.values()) == {1}


def test_no_product_beats_the_peak_of_its_card() -> None:
    """The peak at the boost clock of the preset; H100s of that server boost by 8 % more, as its data sheet allows."""
    for each in measured(HALVES["both"]):
        if each.depth is not None:
            assert each.milliseconds / 1e3 > seconds_at_peak(each) / (1.1 if each.card == "h100" else 1.02), each


@pytest.mark.parametrize(("operator", "batch", "depth"), [
    ("linear", None, 64), ("bmm", 2, 64), *[(vectors, None, None) for vectors in
    ("softmax", "layernorm", "add", "add-constant", "relu", "tanh")],
])  # fmt: skip
def test_an_operator_is_one_kernel_that_takes_microseconds(operator: str, batch: int | None, depth: int | None) -> None:
    case = simulated(Measured("t4", operator, batch, 64, depth, 96, 1.0))

    assert len(case.measured.graph.ops) == 1
    assert 0.001 < case.bound_ms <= case.expected_ms < 0.02
