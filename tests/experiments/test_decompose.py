"""Batches per cluster: a large batch runs as iterations in sequence, with the fastest number of batches at once."""

import pytest

from dsascape import Outcome, load_network, simulate
from dsascape.scheduler import make_policy


def outcome(batches: int | str | None, batch: int = 16) -> Outcome:
    options = {} if batches is None else {"batches_per_cluster": batches}
    return simulate(load_network("resnet18"), "stcp920", make_policy("graphturbo", options), batch=batch)


def test_two_iterations_take_twice_the_time_traffic_and_energy_of_one() -> None:
    once, twice = outcome(2, batch=8), outcome(2, batch=16)

    assert (once.record.iterations, twice.record.iterations) == (1, 2)
    assert twice.record.latency_s == pytest.approx(2 * once.record.latency_s)
    assert twice.record.traffic_bytes["ddr"] == 2 * once.record.traffic_bytes["ddr"]
    assert twice.record.energy_j == pytest.approx(2 * once.record.energy_j)
    assert twice.record.throughput_per_s == pytest.approx(once.record.throughput_per_s)


def test_best_is_no_slower_than_any_number_at_once() -> None:
    best = outcome("best")

    assert best.record.batch_at_once in (1, 2, 4)
    for number in (1, 2, 4, None):
        assert best.record.latency_s <= outcome(number).record.latency_s


def test_more_than_the_share_is_the_share() -> None:
    assert outcome(64).record.latency_s == outcome(None).record.latency_s
