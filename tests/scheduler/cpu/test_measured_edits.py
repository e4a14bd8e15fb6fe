"""Edits of steps whose code was measured: what is predicted of them goes the same way.

`edits.json` has the steps of a convolution and of a product on a Xeon of 16 lanes, as schedule files have them, and of
edited ones; ``measured`` is the time of their code by that of the unedited steps, on one thread of an EPYC that was at
work on other things: only directions say anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.files import read_steps
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

EDITS: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("edits.json").read_text(encoding="utf-8"))
VIEW = CpuView(load_hardware("platinum_8124m", Cpu), CpuTuning(threads=1))
REFUSED = {"convolution": ("no_CacheRead", "no_Inline"), "product": ("no_Inline",)}
"""Edits that leave others of their steps without what they are about."""


def layer(name: str) -> Layer:
    net = Net()
    data = net.input(1, 64, 28, 28) if name == "convolution" else net.input(1, 256, 512)
    made = net.conv(data, 64) if name == "convolution" else net.dense(data, 512)
    found = layer_of(Analysis(net.graph(net.relu(made), dtype="fp32")), (0, 1))
    assert found is not None
    return found


def time_ps(name: str, edit: str) -> float:
    return estimate(kernel_of(layer(name), read_steps(EDITS[name][edit]["steps"]), 1, "fp32", VIEW)).time_ps


@pytest.mark.parametrize("name", EDITS)
def test_predictions_are_within_a_factor_of_three_of_what_is_measured(name: str) -> None:
    base = time_ps(name, "base")
    ratios = {edit: (time_ps(name, edit) / base, found["measured"])
              for edit, found in EDITS[name].items() if found["measured"] is not None}  # fmt: skip

    assert len(ratios) >= 7
    assert all(1 / 3 < predicted / measured < 3 for predicted, measured in ratios.values()), ratios
    assert all(predicted > 5 for predicted, measured in ratios.values() if measured > 5), ratios


SAME = {
    "convolution": {"no_Parallel", "no_ComputeAt", "tile_orders_reversed"},
    "product": {"no_Parallel", "no_Vectorise", "lanes1", "layout_order_reversed", "tile_orders_reversed"},
}
"""Edits of which nothing comes: a parallel loop on one thread, orders of a single tile or dimension, buffers made in
another loop of one tile, and vectors that compilers make again."""


@pytest.mark.parametrize("name", EDITS)
def test_all_other_edits_change_the_time(name: str) -> None:
    base = time_ps(name, "base")
    left = EDITS[name].keys() - {*REFUSED[name]} - SAME[name] - {"base"}

    assert [edit for edit in sorted(left) if time_ps(name, edit) == base] == []


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name, edits in REFUSED.items() for edit in edits])
def test_steps_without_what_they_are_about_are_refused(name: str, edit: str) -> None:
    with pytest.raises(StepError):
        time_ps(name, edit)
