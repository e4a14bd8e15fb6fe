"""Twice a resource costs a random network at most 2 %, and twice the images save no time, but for named exceptions."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.more_resource import PRESETS, drawn_small, slower_with_more
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import load_hardware, with_values
from dsascape.scheduler import make_policy
from tests.graphs import Net

PAIRS = 4
"""Fields that are doubled for each network."""
EXCEPTIONS: Mapping[tuple[str, int, str], str] = {}
"""Why a point gets slower with more, by kind of machine, number of the network and field."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", sorted(PRESETS))
@pytest.mark.parametrize("number", range(67))
def test_twice_of_a_resource_costs_at_most_2_percent(kind: str, number: int, tmp_path: Path) -> None:
    point, chosen = drawn_small(kind, number, tmp_path)

    slower = dict(slower_with_more(point, PAIRS, chosen))

    assert {what: ratio for what, ratio in slower.items() if (kind, number, what) not in EXCEPTIONS} == {}


def latency_s(path: Path, batch: int, hardware: str, policy: str, **values: object) -> float:
    machine = with_values(load_hardware(hardware), {name.replace("__", "."): value for name, value in values.items()})
    return evaluate(DesignPoint(Workload(str(path), batch), machine, make_policy(policy), {})).record.latency_s


def test_a_faster_core_does_not_fuse_a_product_into_a_kernel_that_computes_it_element_by_element(
    tmp_path: Path,
) -> None:
    net = Net()
    value, gate = net.halves(net.dense(net.input(1, 32, 32), 64), 2)
    path = tmp_path / "gated.onnx"
    path.write_bytes(net.model(net.binary("Mul", value, net.unary("Sigmoid", gate))))

    slow_s = latency_s(path, 4, "raspberry_pi_3b_plus", "dnnfusion")
    loads_s = latency_s(path, 4, "raspberry_pi_3b_plus", "dnnfusion", cores__a53__loads_per_cycle=1.0)
    clock_s = latency_s(path, 4, "raspberry_pi_3b_plus", "dnnfusion", cores__a53__clock="2.8 GHz")

    assert max(loads_s, clock_s) <= slow_s


def test_a_faster_cache_does_not_make_two_convolutions_fetch_and_write_buffers_of_winograd(tmp_path: Path) -> None:
    net = Net()
    first = net.relu(net.depthwise(net.pool(net.input(1, 16, 16, 16), 3, 1), stride=2))
    inner = net.relu(net.conv(first, 16))
    path = tmp_path / "residual.onnx"
    path.write_bytes(net.model(net.relu(net.add(net.conv(inner, 16), first))))

    taken_s = [
        latency_s(path, 2, "epyc", "fixed-pattern", cores__core__l2__bytes_per_cycle=width)
        for width in (32.0, 64.0)
    ]  # fmt: skip

    assert taken_s[1] <= taken_s[0]
