"""Issued multiply-accumulates: the network's, plus those of uneven parts, halos and taps between strides."""

from math import ceil, inf, prod

import pytest

from dsascape.experiments.point.pipeline import run_stages
from dsascape.hw_models import Compute, Program, load_hardware
from dsascape.scheduler import LayerRun, Placing, make_policy
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from tests.scheduler.runs import EVERY_POLICY

TAPS = 1.13
"""How much a whole number of taps per output may add where a stride leaves out a fraction of them."""


def issued(program: Program, number: int) -> int:
    """The multiply-accumulates of one layer run on one cluster."""
    return sum(
        instruction.payload.macs * program.executions(instruction)
        for instruction in program.instructions
        if instruction.layer_run == number and isinstance(instruction.payload, Compute)
    ) // program.extent["cluster"]


def products(run: LayerRun) -> int:
    """How many of a layer's nests multiply: of several, tiles may compute all but the last again."""
    return sum(bool(nest.operations.macs) for nest in run.layer.tile_work(run.extents).nests)


def padded(run: LayerRun) -> float:
    """The share of elements that cores compute beyond the box, where it does not divide."""
    binding = zip(run.extents, run.binding.factors, strict=True)
    return prod(ceil(extent / factor) * factor / extent for extent, factor in binding)


@pytest.mark.sampled(8, long=["mobilenet-v2-ago"])
@EVERY_POLICY
@pytest.mark.parametrize("network", ["dcgan", "unet", "mobilenet-v2", "bert-tiny"])
def test_each_layer_issues_what_the_network_has_times_its_padding(name: str, network: str) -> None:
    analysis = Analysis(load_network(network, batch=2).with_dtype("fp16"))
    placing = Placing(hardware=load_hardware("stcp920"), parts=4, dtype="fp16")
    stages = run_stages(analysis, make_policy(name), placing)
    assert isinstance(stages.schedule, Schedule)

    for number, run in enumerate(stages.schedule.runs):
        needed = sum(nest.operations.macs for nest in run.layer.tile_work(run.extents).nests)
        if needed:
            factor = issued(stages.program, number) / needed
            most = padded(run) * TAPS if products(run) == 1 else inf
            assert 0.99 <= factor <= most, f"{run.layer.sink.name}: {factor:.3f} times its {needed}"


@EVERY_POLICY
def test_transposed_convolutions_skip_the_taps_between_strides(name: str) -> None:
    """DCGAN is made of them: with all taps it would be 4.5 times its arithmetic."""
    analysis = Analysis(load_network("dcgan", batch=4).with_dtype("fp16"))
    placing = Placing(hardware=load_hardware("stcp920"), parts=4, dtype="fp16")
    stages = run_stages(analysis, make_policy(name), placing)
    assert isinstance(stages.schedule, Schedule)
    total = sum(issued(stages.program, number) for number in range(len(stages.schedule.runs)))

    most = 1.2 if all(products(run) <= 1 for run in stages.schedule.runs) else 4.4
    assert 1 <= total / analysis.graph.operations.macs <= most
