"""The table that compares heuristic instance orders with the exact one."""

import pytest

from dsascape.experiments.papers.graphturbo_orders import orders


def test_on_mobilenet_depth_first_needs_a_fiftieth_more_than_the_exact_order() -> None:
    pytest.importorskip("ortools")
    (row,) = orders(["stcp920"], [("mobilenet-v2", 32)])
    *_, instances, wide, deep, heavy, exact, least, above, latency_ms, exact_latency_ms = row

    assert instances == 31
    assert isinstance(exact, float)
    assert exact == least
    assert all(isinstance(other, float) and exact <= other for other in (wide, deep, heavy))
    assert above == "+2 %"
    assert isinstance(latency_ms, float)
    assert isinstance(exact_latency_ms, float)
    assert 0 < exact_latency_ms <= latency_ms
