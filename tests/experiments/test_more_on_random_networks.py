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
_PATHS = "ago joins operators one by one while each step pays; with other times it ends in another partition"
_UNTRACED = "not traced"
EXCEPTIONS: Mapping[tuple[str, int, str], str] = {
    ("cpu", 2, "cores.a76.l2.capacity"): _UNTRACED,  # under ago, 19 %
    ("cpu", 7, "cores.core.clock"): _PATHS,  # 6 kernels for 3: 46 %
    ("cpu", 7, "cores.core.special_cycles"): _PATHS,  # 49 %
    ("gpu", 11, "batch"): _UNTRACED,  # under ago, 7 %
    ("dsa", 6, "clock"): _UNTRACED,  # under 4 %
    ("dsa", 11, "batch"): _UNTRACED,  # under 4 %
    ("dsa", 19, "cores_per_cluster"): _UNTRACED,  # under 4 %
    ("dsa", 25, "batch"): _UNTRACED,  # under 4 %
}
"""Why a point gets slower with more, by kind of machine, number of the network and field."""
NUMBERS = {"cpu": 17, "gpu": 24, "dsa": 37}
"""How many networks are drawn for each kind of machine."""
CASES = [(kind, number) for kind in sorted(PRESETS) for number in range(NUMBERS[kind])]
UNDER_AGO = [
    "cpu-1",
    "cpu-2",
    "cpu-6",
    "cpu-7",
    "cpu-9",
    "cpu-11",
    "cpu-15",
    "gpu-2",
    "gpu-3",
    "gpu-11",
    "dsa-0",
    "dsa-4",
    "dsa-5",
    "dsa-7",
    "dsa-11",
    "dsa-12",
    "dsa-35",
]
"""Points of which ago's partition decides: by night only."""


@pytest.mark.sampled(6, long=UNDER_AGO)
@pytest.mark.parametrize(("kind", "number"), CASES)
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
    path.write_bytes(net.model(net.binary("Mul", value, net.unary("Sigmoid", gate))).SerializeToString())

    slow_s = latency_s(path, 4, "raspberry_pi_3b_plus", "dnnfusion")
    loads_s = latency_s(path, 4, "raspberry_pi_3b_plus", "dnnfusion", cores__a53__loads_per_cycle=1.0)
    clock_s = latency_s(path, 4, "raspberry_pi_3b_plus", "dnnfusion", cores__a53__clock="2.8 GHz")

    assert max(loads_s, clock_s) <= slow_s


def test_a_faster_cache_does_not_make_two_convolutions_fetch_and_write_buffers_of_winograd(tmp_path: Path) -> None:
    net = Net()
    first = net.relu(net.depthwise(net.pool(net.input(1, 16, 16, 16), 3, 1), stride=2))
    inner = net.relu(net.conv(first, 16))
    path = tmp_path / "residual.onnx"
    path.write_bytes(net.model(net.relu(net.add(net.conv(inner, 16), first))).SerializeToString())

    taken_s = [
        latency_s(path, 2, "epyc", "fixed-pattern", cores__core__l2__bytes_per_cycle=width)
        for width in (32.0, 64.0)
    ]  # fmt: skip

    assert taken_s[1] <= taken_s[0]
