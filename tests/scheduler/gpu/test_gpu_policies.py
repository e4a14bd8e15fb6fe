"""How plans become kernels on a GPU, and what policies do that schedule it themselves."""

import pytest
from hypothesis import given, settings

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.fusion.plan import FusionPlan, Group, violations
from dsascape.hw_models import Gpu, SimulationResult, load_hardware
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.policy import EvaluatingPolicy
from dsascape.workloads import Graph
from tests.graphs import Net, networks
from tests.hw_models.gpu.gpus import SHARED, gpu, gpus, sms
from tests.scheduler.gpu.running import costs_of, run, simulated
from tests.scheduler.small import compulsory_bytes, convolution
from tests.tiers import examples


class TestPolicies:
    def test_any_plan_is_scheduled_kernel_by_kernel(self) -> None:
        costs = costs_of(convolution(), gpu())
        plan = FusionPlan(costs.analysis.graph, (Group((0,), "alone"), Group((1, 2), "together")))

        assert kernel_by_kernel(plan, costs).kernels == 2

    def test_a_group_of_which_no_block_fits_is_cut(self) -> None:
        """Two products in one kernel: a row of 12,000 FP16 sums of the first takes 24,000 bytes."""
        net = Net("pair")
        graph = net.graph(net.matmul(net.matmul(net.input(64, 32), net.weight(32, 12_000)), net.weight(12_000, 32)))
        plan = FusionPlan(graph, (Group((0, 1), "together"),))
        sizes = ("128 KiB", "16 KiB")
        large, tight = (
            costs_of(graph, gpu(sms=sms(shared=SHARED | {"capacity": size, "per_block": size}))) for size in sizes
        )

        assert kernel_by_kernel(plan, large).kernels == 1
        assert kernel_by_kernel(plan, tight).kernels == 2
        assert tight.kernel_s((0, 1)) == float("inf")


def policy_run(graph: Graph, spec: Gpu, name: str) -> tuple[GpuSchedule, SimulationResult]:
    costs, policy = costs_of(graph, spec), make_policy(name)
    assert isinstance(policy, EvaluatingPolicy)
    evaluated = policy.evaluate(costs)
    assert isinstance(evaluated.schedule, GpuSchedule)
    assert evaluated.result == simulated(evaluated.schedule, costs)
    return evaluated.schedule, evaluated.result


class TestStitching:
    @given(graph=networks(), spec=gpus())
    @settings(deadline=None, max_examples=examples(15))
    def test_graphturbo_is_a_plan_and_never_slower_than_layers(self, graph: Graph, spec: Gpu) -> None:
        schedule, result = policy_run(graph, spec, "graphturbo")

        assert violations(schedule.plan) == []
        assert result.makespan_ps <= run(graph, spec).makespan_ps
        assert result.makespan_ps >= graph.operations.macs / spec.peak_macs_per_s("fp16") * 1e12 * (1 - 1e-9)
        assert all(group.boundary_reason for group in schedule.plan.groups)

    @given(graph=networks(), spec=gpus())
    @settings(deadline=None, max_examples=examples(15))
    def test_astitch_leaves_products_alone(self, graph: Graph, spec: Gpu) -> None:
        schedule, _ = policy_run(graph, spec, "astitch")

        assert violations(schedule.plan) == []
        for kernel in schedule.runs:
            found = [nest for nest in nests_of(kernel.layer).nests if nest.compiled.contraction]
            assert len(found) <= 1

    def test_a_chain_of_small_layers_is_one_kernel(self) -> None:
        """Launches of 2 us each are most of what three products of 32 x 32 take."""
        net = Net("chain")
        x = net.input(32, 32)
        for _ in range(3):
            x = net.relu(net.dense(x, 32))
        graph = net.graph(x)
        schedule, result = policy_run(graph, gpu(), "graphturbo")

        assert schedule.kernels == 1
        assert schedule.tensor_scopes == {"shared": 2, "dram": 1}
        assert result.traffic_bytes["dram"] == pytest.approx(compulsory_bytes(graph), abs=1024)
        assert run(graph, gpu()).makespan_ps - result.makespan_ps > 2 * 2_000_000

    def test_what_others_read_too_is_written_as_well(self) -> None:
        """A residual sum goes into the kernel that normalises it, and to DRAM for the sum after that."""
        net = Net("residual")
        total = net.add(net.input(64, 256), net.input(64, 256))
        graph = net.graph(net.add(net.dense(net.layer_norm(total), 256), total))
        schedule, _ = policy_run(graph, gpu(), "astitch")

        assert [len(kernel.layer.outputs) for kernel in schedule.runs] == [2, 1]

    def test_large_convolutions_stay_apart(self) -> None:
        """Their blocks would compute what they share with others twice, and all channels of the first for each."""
        net = Net("pair")
        graph = net.graph(net.relu(net.conv(net.relu(net.conv(net.input(8, 256, 14, 14), 256)), 256)))

        assert policy_run(graph, load_hardware("a100", Gpu), "graphturbo")[0].kernels == 2

    def test_options_of_scratchpads_are_refused(self) -> None:
        point = DesignPoint(Workload("bert-tiny"), load_hardware("v100"), make_policy("graphturbo", {"order": "bfs"}))

        with pytest.raises(ScheduleError, match="option order is for clustered DSAs; leave it out on a GPU"):
            evaluate(point)
