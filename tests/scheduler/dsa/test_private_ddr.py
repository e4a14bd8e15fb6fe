"""DDR partitioned per cluster: idle clusters waste their bandwidth, and each part holds its own weights."""

import pytest

from dsascape import simulate
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, RunRecord, Workload
from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models import ClusteredDsa, HardwareError, dsa_machine, load_hardware, with_values
from dsascape.scheduler import DsaTuning, ScheduleError, make_policy
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import kernel_by_kernel
from dsascape.scheduler.dsa.schedule.schedule import Layout
from dsascape.scheduler.dsa.view import DsaView
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine

SHARED = with_values(load_hardware("stcp920", ClusteredDsa), {"ddr.sharing": "shared"})
PRIVATE = with_values(load_hardware("stcp920", ClusteredDsa), {"ddr.sharing": "private"})


def latency_s(machine: ClusteredDsa, batch: int) -> float:
    return simulate("vgg16", machine, "fixed-pattern", batch=batch).record.latency_s


def in_one_cluster(machine: ClusteredDsa) -> RunRecord:
    """Return the figures of one image, whose kernels clusters do not share."""
    tuning = {"kernels_divided": "never"}
    point = DesignPoint(Workload("vgg16", 1), machine, make_policy("fixed-pattern"), tuning=tuning)
    return evaluate(point).record


def test_a_part_has_its_share_of_capacity_and_bandwidth() -> None:
    whole, part = dsa_machine(SHARED).memories["ddr"], dsa_machine(PRIVATE).memories["ddr"]

    assert (whole.level, part.level) == ("chip", "cluster")
    assert part.capacity_bytes * 4 == whole.capacity_bytes
    assert part.bandwidth_bytes_per_s * 4 == whole.bandwidth_bytes_per_s


def test_one_image_in_one_cluster_has_a_quarter_of_the_bandwidth() -> None:
    """VGG-16 at one image waits for its 276 MB of weights: 2.2 times as fast a DDR until the link of 64 GB/s bounds."""
    assert in_one_cluster(PRIVATE).latency_s > 1.8 * in_one_cluster(SHARED).latency_s


def test_one_image_whose_kernels_clusters_share_has_all_of_it() -> None:
    """Clusters read and write equal parts of DDR at any time, so it makes no difference whether these are private."""
    assert latency_s(PRIVATE, 1) == pytest.approx(latency_s(SHARED, 1), rel=1e-6)
    assert latency_s(PRIVATE, 1) < in_one_cluster(PRIVATE).latency_s / 2


def test_with_all_clusters_at_work_it_makes_no_difference() -> None:
    """One image of each cluster at a time; with shared DDR fewer clusters would be faster, and be taken."""
    policy = make_policy("fixed-pattern", {"batches_per_cluster": 1})
    private, shared = (simulate("vgg16", machine, policy, batch=4).record for machine in (PRIVATE, SHARED))

    assert private.parts_at_work == shared.parts_at_work == 4
    assert private.latency_s == pytest.approx(shared.latency_s, rel=1e-6)
    assert latency_s(SHARED, 4) < shared.latency_s


def test_utilisation_counts_the_parts_that_are_idle() -> None:
    record = in_one_cluster(PRIVATE)

    assert 0.1 < record.utilisation["ddr"] <= 0.25
    assert record.utilisation_at_work["ddr"] == pytest.approx(4 * record.utilisation["ddr"], rel=1e-6)
    assert record.utilisation_at_work["matrix"] == pytest.approx(4 * record.utilisation["matrix"], rel=1e-6)


def test_every_cluster_holds_all_weights() -> None:
    """VGG-16 has 277 MB of weights in FP16: in 1 GiB they fit once, not four times."""
    small = {"ddr.capacity": "1 GiB"}

    assert simulate("vgg16", with_values(SHARED, small), "fixed-pattern", batch=4).record.latency_s > 0
    with pytest.raises(ScheduleError, match=r"ddr\.capacity"):
        simulate("vgg16", with_values(PRIVATE, small), "fixed-pattern", batch=4)


def test_only_two_kinds_of_sharing_exist() -> None:
    with pytest.raises(HardwareError, match="sharing"):
        with_values(PRIVATE, {"ddr.sharing": "split"})


class TestWeightsThatAreTooLargeForCopies:
    """A product of 1,024 rows and 64 x 128 weights, 16 KiB, for four clusters that share it.

    Each cluster has the input, 128 KiB, and its part of the output, 64 KiB: 768 KiB in all, without weights.
    """

    @staticmethod
    def _layout(capacity: str) -> Layout:
        net = Net("product")
        graph = net.graph(net.dense(net.input(1024, 64), 128))
        ddr = {"capacity": capacity, "bandwidth": "16 GB/s", "efficiency": 1.0, "sharing": "private"}
        view = DsaView(machine(clusters=4, ddr=ddr), 4, DsaTuning(kernels_divided="always"))
        return kernel_by_kernel(fixed_pattern_plan(graph), DsaCosts(view, Analysis(graph), "fp16"))

    def test_rows_are_divided_while_there_is_room_for_a_copy_on_each_cluster(self) -> None:
        (run,) = self._layout("1 MiB").runs

        assert run.divided is not None
        assert run.divided.factors == (4, 1)

    def test_channels_are_divided_where_there_is_not(self) -> None:
        (run,) = self._layout("800 KiB").runs  # four copies of the weights would make it 832

        assert run.divided is not None
        assert run.divided.factors == (1, 4)

    def test_where_parts_do_not_fit_either_the_bytes_needed_are_said(self) -> None:
        with pytest.raises(ScheduleError, match=r"need 784 KiB of DDR at once; ddr\.capacity is 512 KiB"):
            self._layout("512 KiB")

    def test_weights_that_exceed_all_of_ddr_are_said_to(self) -> None:
        with pytest.raises(ScheduleError, match=r"its weights alone needs 16 KiB of DDR, and all of it 784 KiB"):
            self._layout("8 KiB")
