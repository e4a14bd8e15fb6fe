"""Recurrences with few steps: no number of steps is a special case."""

from itertools import pairwise

import pytest

from dsascape import simulate
from dsascape.hw_models.machine_files.load import preset_names
from tests.scheduler.cpu.test_recurrences import recurrent, running_sum
from tests.workloads.onnx_models import read

MORE_MAY_WIN = 0.97


@pytest.mark.sampled(12)
@pytest.mark.parametrize("machine", preset_names())
@pytest.mark.parametrize(("kind", "batch", "units"), [("LSTM", 1, 64), ("GRU", 4, 32), ("RNN", 1, 128)])
def test_more_steps_take_no_less_time(kind: str, batch: int, units: int, machine: str) -> None:
    graphs = [read(recurrent(kind, steps, batch, units)) for steps in range(1, 9)]
    taken_s = [simulate(graph, machine, "fixed-pattern").record.latency_s for graph in graphs]

    assert all(more >= MORE_MAY_WIN * fewer for fewer, more in pairwise(taken_s))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("machine", preset_names())
def test_longer_running_sums_take_no_less_time(machine: str) -> None:
    graphs = [read(running_sum(size, 512, axis=0)) for size in range(1, 9)]
    taken_s = [simulate(graph, machine, "fixed-pattern").record.latency_s for graph in graphs]

    assert all(more >= MORE_MAY_WIN * fewer for fewer, more in pairwise(taken_s))
