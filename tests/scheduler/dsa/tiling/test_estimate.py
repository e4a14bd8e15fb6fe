"""The estimated time of tilings is near the simulated time, and ranks layers in the same order."""

import pandas as pd
import pytest

from dsascape.hw_models import ClusteredDsa, Launch, load_hardware
from dsascape.scheduler import make_policy
from dsascape.workloads import load_network
from tests.scheduler.runs import Run, run_of

# Estimate by simulated time of one layer run; of ResNet-50's the least is 1.01 and the most 1.30.
LEAST, MOST = 1.0, 1.31
RANKED_ALIKE = 0.95
"""Spearman's rank correlation; 0.98 for ResNet-50."""


def estimated_and_simulated(run: Run) -> pd.DataFrame:
    """Return of each layer run its estimate, and the time from its kernel's launch to its last instruction's end."""
    launched, ended = launches(run)["end_ps"], dict.fromkeys(range(len(run.schedule.runs)), 0)
    trace = run.result.trace
    for instruction, end in zip(trace.instructions, trace.end_ps, strict=True):
        if instruction.layer_run >= 0:
            ended[instruction.layer_run] = max(ended[instruction.layer_run], end)
    estimates = [execution.tiling.estimate_ps for execution in run.schedule.executions]
    return pd.DataFrame({"estimate_ps": estimates, "simulated_ps": list(ended.values()) - launched})


def launches(run: Run) -> pd.DataFrame:
    trace = run.result.trace
    times = zip(trace.instructions, trace.start_ps, trace.end_ps, strict=True)
    found = [(begin, end) for instruction, begin, end in times if isinstance(instruction.payload, Launch)]
    return pd.DataFrame(found, columns=["begin_ps", "end_ps"])


@pytest.fixture(scope="module")
def resnet50() -> Run:
    """Return ResNet-50 kernel by kernel, four images on each cluster."""
    spec = load_hardware("stcp920")
    assert isinstance(spec, ClusteredDsa)
    return run_of(make_policy("fixed-pattern"), load_network("resnet50", batch=4).with_dtype("fp16"), spec)


def test_every_kernel_of_resnet50_is_one_layer_run_and_waits_for_the_one_before(resnet50: Run) -> None:
    """So that the time from a launch to the end of the run is that of the layer alone."""
    times, launched = estimated_and_simulated(resnet50), launches(resnet50)
    ended = launched.end_ps + times.simulated_ps

    assert len(times) == len(launched) == 56
    assert (launched.begin_ps.iloc[1:].to_numpy() == ended.iloc[:-1].to_numpy()).all()


def test_the_estimate_of_a_layer_of_resnet50_is_near_its_simulated_time(resnet50: Run) -> None:
    times = estimated_and_simulated(resnet50)
    by_simulated = times.estimate_ps / times.simulated_ps

    assert by_simulated.min() >= LEAST
    assert by_simulated.max() <= MOST


def test_layers_of_resnet50_that_are_estimated_to_take_longer_do(resnet50: Run) -> None:
    times = estimated_and_simulated(resnet50)

    assert times.estimate_ps.rank().corr(times.simulated_ps.rank()) >= RANKED_ALIKE
