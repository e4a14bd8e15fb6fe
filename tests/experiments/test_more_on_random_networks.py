"""Twice a resource costs a random network at most 2 %, twice the images save none, but for two reasons looked for."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.more_resource import PRESETS, TOLERANCE, TOLERANCE_OF_IMAGES, drawn_small, seconds, slower_with_more
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import Cpu, load_hardware, with_values
from dsascape.scheduler import make_policy
from tests.graphs import Net

PAIRS = 4
"""Fields that are doubled for each network."""
NUMBERS = {"cpu": 70, "gpu": 65, "dsa": 65}
"""How many networks are drawn for each kind of machine."""
CASES = [(kind, number) for kind in sorted(PRESETS) for number in range(NUMBERS[kind])]


def by_another_number_of_threads(point: DesignPoint, better: DesignPoint) -> bool:
    """Whether the faster machine is no slower on fewer threads of one number for all kernels.

    A kernel's threads are chosen before it is known what it finds in the caches, by the mean of two estimates; the
    simulation, which knows, may differ.
    """
    if not isinstance(better.hardware, Cpu) or better.tuning:
        return False
    before_s = seconds(point)
    assert before_s is not None
    for threads in range(1, better.hardware.core_count):
        taken_s = seconds(replace(better, tuning={"threads": threads}))
        if taken_s is not None and taken_s[0] <= before_s[0] * TOLERANCE:
            return True
    return False


def by_another_order_of_cores(point: DesignPoint, better: DesignPoint) -> bool:
    """Whether more of one kind of cores puts it before another: the order is by products alone, not by caches."""
    before, after = point.hardware, better.hardware
    if not (isinstance(before, Cpu) and isinstance(after, Cpu)):
        return False
    orders = [sorted(each.cores, key=lambda name: -each.products_per_s(each.cores[name])) for each in (before, after)]
    return orders[0] != orders[1]


EXCUSES = by_another_number_of_threads, by_another_order_of_cores
"""Reasons for which a point may get slower with more, each of which is looked for in the point itself."""


def slower_ones(kind: str, number: int, folder: Path) -> dict[str, float]:
    """Return the fields that make a point slower when they are doubled, with the ratio of times."""
    point, chosen = drawn_small(kind, number, folder)
    return {
        what: ratio for what, better, ratio in slower_with_more(point, PAIRS, chosen)
        if not any(excuse(point, better) for excuse in EXCUSES)
    }  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "number"), CASES)
def test_twice_of_a_resource_costs_at_most_2_percent(kind: str, number: int, tmp_path: Path) -> None:
    assert slower_ones(kind, number, tmp_path) == {}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [5, 25, 33])
def test_nor_where_a_gpu_once_costed_the_few_candidates_alone_that_a_rough_time_chose(
    number: int, tmp_path: Path
) -> None:
    """Another machine put them into another order, up to 8 % were lost."""
    assert slower_ones("gpu", number, tmp_path) == {}


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


@pytest.mark.parametrize("hardware", ["a30", "h100", "t4"])
def test_two_images_are_no_faster_than_one_where_products_have_few_rows(hardware: str, tmp_path: Path) -> None:
    net = Net()
    value, gate = net.halves(net.dense(net.input(1, 4, 16), 32), 2)
    gated = net.binary("Mul", value, net.unary("Sigmoid", gate))
    path = tmp_path / "few.onnx"
    path.write_bytes(net.model(net.dense(net.transpose(gated, 0, 2, 1), 4)).SerializeToString())

    one_s, two_s = [latency_s(path, batch, hardware, "graphturbo") for batch in (1, 2)]

    assert one_s <= two_s * TOLERANCE_OF_IMAGES
