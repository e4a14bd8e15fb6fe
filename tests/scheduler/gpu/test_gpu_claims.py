"""Claims about GPUs that an architect would check."""

import itertools

import pytest

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import Gpu, load_hardware, with_values
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.kernels.loops.steps import Tensorise
from tests.graphs import Net
from tests.hw_models.gpu.gpus import gpu, sms
from tests.scheduler.gpu.running import changed, costs_of, planned, run
from tests.scheduler.small import convolution, elementwise, product


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("sms.count", [27, 54, 81, 108, 144]),
        ("dram.bandwidth", ["100 GB/s", "400 GB/s", "1555 GB/s"]),
        ("l2.bandwidth", ["1000 GB/s", "2500 GB/s", "5400 GB/s"]),
        ("l2.capacity", ["2 MiB", "10 MiB", "40 MiB"]),
        ("sms.clock", ["700 MHz", "1.41 GHz"]),
    ],
)
def test_a_larger_machine_is_no_slower(path: str, values: list[object]) -> None:
    """But for the 2 % that the search for tiles gives away for less traffic."""
    times = []
    for value in values:
        spec = with_values(load_hardware("a100"), {path: value})
        point = DesignPoint(Workload("resnet18-tailor", 8), spec, make_policy("fixed-pattern"))
        times.append(evaluate(point).record.latency_s)

    assert all(later <= 1.02 * earlier for earlier, later in itertools.pairwise(times)), times


class TestClaims:
    def test_fused_is_faster_than_unfused(self) -> None:
        assert run(convolution(), gpu()).makespan_ps < run(convolution(), gpu(), "unfused").makespan_ps

    def test_tensor_units_are_faster_than_lanes(self) -> None:
        graph = product(256, 256, 256)
        on_lanes = run(graph, gpu(), tuning=GpuTuning(tensor_units=False))

        assert run(graph, gpu()).makespan_ps < on_lanes.makespan_ps

    def test_tensor_units_get_products_and_nothing_else(self) -> None:
        net = Net("both")
        graph = net.graph(net.depthwise(net.conv(net.input(1, 32, 28, 28), 64, 1)))

        runs = planned(costs_of(graph, gpu())).runs

        assert [any(isinstance(step, Tensorise) for step in kernel.steps) for kernel in runs] == [True, False]

    def test_a_large_product_comes_near_the_peak(self) -> None:
        """2048^3 in FP16: 8.6 G multiply-accumulates, 10.0 us at the peak of an A100 of half as many SMs."""
        spec = changed(load_hardware("a100", Gpu), launch="0 us")
        result = run(product(2048, 2048, 2048), spec)
        ideal_ps = 2048**3 / spec.peak_macs_per_s("fp16") * 1e12

        assert ideal_ps < result.makespan_ps < 2 * ideal_ps

    def test_twice_the_dram_bandwidth_is_twice_as_fast_where_dram_is_the_limit(self) -> None:
        slow, fast = (changed(gpu(launch="0 us"), dram__bandwidth=each) for each in ("1 GB/s", "2 GB/s"))
        graph = elementwise(1024)

        assert run(graph, slow).bottleneck == "dram"
        assert run(graph, slow).makespan_ps / run(graph, fast).makespan_ps == pytest.approx(2, rel=0.02)

    def test_more_sms_compute_faster(self) -> None:
        graph = convolution(size=56)
        few, many = (gpu(sms=sms(count=count), launch="0 us") for count in (1, 8))

        assert run(graph, many).makespan_ps < 0.3 * run(graph, few).makespan_ps

    def test_a_tensor_that_stays_in_the_l2_does_not_go_to_dram(self) -> None:
        graph = convolution(channels=16)
        fused, unfused = (run(graph, gpu(), policy).traffic_bytes for policy in ("fixed-pattern", "unfused"))

        assert unfused["dram"] == pytest.approx(fused["dram"], rel=0.02)
        assert unfused["l2"] > fused["l2"]

    def test_a_network_that_fits_is_faster_when_the_l2_is_warm(self) -> None:
        graph = elementwise(32)  # 64 KiB a tensor
        warm, cold = (run(graph, gpu(), tuning=GpuTuning(warm_l2=each)) for each in (True, False))

        assert warm.traffic_bytes["dram"] == 32 * 1024 * 2  # the result
        assert warm.makespan_ps < cold.makespan_ps

    def test_a_row_that_shared_memory_does_not_hold_is_still_normalised(self) -> None:
        net = Net("rows")
        graph = net.graph(net.layer_norm(net.input(4, 40_000)))

        assert run(graph, gpu()).makespan_ps > 0
