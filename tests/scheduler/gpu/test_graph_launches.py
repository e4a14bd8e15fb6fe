"""Kernels that are launched as parts of a graph follow each other after the machine's time for that."""

import re

import pytest

from dsascape import HardwareError, load_hardware, load_network
from dsascape.hw_models import Gpu
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.workloads.analysis import Analysis
from tests.scheduler.gpu.running import planned, simulated


def costs(machine: str, *, graphs: bool) -> GpuCosts:
    analysis = Analysis(load_network("bert-tiny").with_dtype("fp16"))
    tuning = GpuTuning(graphs=graphs)
    found = GPU.costs(load_hardware(machine, Gpu), 1, "fp16", tuning, GPU.new_cache(), analysis)
    assert isinstance(found, GpuCosts)
    return found


def test_each_launch_takes_as_long_as_within_a_graph() -> None:
    """H100: 1.2 us in place of 2.5."""
    apart, as_graph = costs("h100", graphs=False), costs("h100", graphs=True)
    schedule = planned(apart)

    saved_ps = simulated(schedule, apart).makespan_ps - simulated(schedule, as_graph).makespan_ps
    assert saved_ps == len(schedule.runs) * 1_300_000


def test_a_machine_that_says_nothing_of_graphs_is_refused() -> None:
    message = "v100: tuning.graphs needs graph_launch in the machine's file; it has none"

    with pytest.raises(HardwareError, match=re.escape(message)):
        costs("v100", graphs=True)
