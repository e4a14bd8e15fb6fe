"""The table that puts the orders of instances beside the exact one."""

import pytest

from experiments.papers.graphturbo_orders import orders


def test_on_mobilenet_the_paper_s_better_order_needs_an_eighth_more_than_the_exact_one() -> None:
    pytest.importorskip("ortools")
    (row,) = orders(["stcp920"], [("mobilenet-v2", 16)])
    *_, instances, wide, deep, heavy, exact, least, above, latency_ms, exact_latency_ms = row

    assert instances == 15
    assert isinstance(exact, float)
    assert exact == least
    assert all(isinstance(other, float) and exact <= other for other in (wide, deep, heavy))
    assert above == "+12 %"
    assert isinstance(latency_ms, float)
    assert isinstance(exact_latency_ms, float)
    assert 0 < exact_latency_ms <= latency_ms
