"""A policy plans, and may schedule; an error in either is reported in a sentence that names the policy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from dsascape.experiments.point.pipeline import run_stages
from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import Evaluated, Placing, Policy, ScheduleError, SchedulingPolicy, make_plan, make_schedule
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import kernel_by_kernel
from dsascape.scheduler.dsa.deciding.runs import evaluate_schedule
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machine
from tests.scheduler.runs import run_of, schedule_of

SMALL = {"capacity": "4 KiB", "bandwidth": "128 GB/s", "weight_window": 0.2}


def two_convolutions() -> Graph:
    net = Net("two")
    return net.graph(net.conv(net.relu(net.conv(net.input(4, 4, 16, 16), 16)), 4))


@dataclass(frozen=True)
class OneKernel:
    """A policy that plans only: everything is one kernel."""

    name: ClassVar[str] = "one-kernel"

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])


@dataclass(frozen=True)
class Cheapest:
    """A policy that asks for the seconds of kernels, and takes the plan with the smaller sum."""

    name: ClassVar[str] = "cheapest"

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        plans = [OneKernel().plan(graph, costs), costs.analysis.of(fixed_pattern_of)]
        return min(plans, key=lambda plan: sum(costs.kernel_s(group.ops) for group in plan.groups))


@dataclass(frozen=True)
class OwnSchedule:
    """A policy that schedules, too: the kernels of its plan under a name of its own."""

    name: ClassVar[str] = "own-schedule"
    kinds: ClassVar[tuple[str, ...]] = ("clustered_dsa",)

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        return costs.analysis.of(fixed_pattern_of)

    def schedule(self, plan: FusionPlan, costs: DsaCosts) -> Schedule:
        return kernel_by_kernel(plan, costs, "by myself")


class TestAPolicyThatPlansOnly:
    def test_runs_through_all_stages(self) -> None:
        graph, spec = two_convolutions(), machine()
        stages = run_stages(Analysis(graph), OneKernel(), Placing(hardware=spec, parts=1, dtype="fp16"))

        assert stages.plan.groups == (Group((0, 1, 2)),)
        assert (stages.schedule.policy, stages.schedule.kernels) == ("one-kernel", 1)
        assert stages.result.makespan_ps > 0
        assert stages.result.trace.instructions is stages.program.instructions

    @pytest.mark.parametrize(
        ("spec", "kernels"),
        [
            (machine(), 1),
            (
                machine(
                    launch="0 ns", local_buffer={"capacity": "4 KiB", "bandwidth": "128 GB/s", "weight_window": 0.2}
                ),
                2,
            ),
        ],
    )
    def test_chooses_by_sums_of_seconds_what_the_machine_is_done_with_first(
        self, spec: ClusteredDsa, kernels: int
    ) -> None:
        """One kernel saves a round through DDR; with small tiles it computes too much of the first layer twice."""
        policies: list[Policy] = [Cheapest(), OneKernel(), OwnSchedule()]
        chosen, *others = [run_of(policy, two_convolutions(), spec) for policy in policies]

        assert chosen.schedule.kernels == kernels
        assert chosen.result.makespan_ps == min(run.result.makespan_ps for run in others)


def test_a_policy_may_schedule_its_own_plan() -> None:
    assert isinstance(OwnSchedule(), SchedulingPolicy)
    assert schedule_of(OwnSchedule(), two_convolutions(), machine()).policy == "by myself"


def test_a_policy_that_simulates_is_asked_once_and_its_run_is_handed_on() -> None:
    found: list[Evaluated[Any]] = []

    class Once(OwnSchedule):
        def evaluate(self, costs: DsaCosts, plan: FusionPlan | None = None) -> Evaluated[Any]:
            schedule = kernel_by_kernel(plan or self.plan(costs.analysis.graph, costs), costs, "once")
            found.append(evaluate_schedule(schedule, costs))
            return found[-1]

    graph, spec = two_convolutions(), machine()
    stages = run_stages(Analysis(graph), Once(), Placing(hardware=spec, parts=1, dtype="fp16"))

    assert len(found) == 1
    assert stages is found[0]
    assert stages.plan is stages.schedule.plan


def refusal(policy: Any, *, schedules: bool = False) -> str:
    """Return what is said about a policy that goes wrong in its plan, or in its schedule."""
    placing = Placing(hardware=machine(), parts=1, dtype="fp16")
    costs = placing.costs(Analysis(two_convolutions()))
    plan = OwnSchedule().plan(costs.analysis.graph, costs)
    with pytest.raises(ScheduleError) as refused:
        make_schedule(policy, plan, placing, costs) if schedules else make_plan(policy, placing, costs)
    return str(refused.value)


class TestAPolicyIsRefused:
    def test_that_schedules_other_machines_only(self) -> None:
        class ForGpus(OwnSchedule):
            kinds = ("gpu",)

        assert refusal(ForGpus()) == "policy own-schedule schedules gpu; small is a clustered_dsa"

    def test_that_leaves_an_operator_out(self) -> None:
        class Forgetful(OneKernel):
            def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
                return FusionPlan(graph, (Group((0, 1)),))

        assert refusal(Forgetful()).startswith("policy one-kernel: its plan is broken: ")

    def test_that_returns_no_plan(self) -> None:
        class Listing(OneKernel):
            def plan(self, graph: Graph, costs: KernelCosts) -> Any:
                return [(0, 1), (2,)]

        assert refusal(Listing()) == (
            "policy one-kernel: plan returns a list; needs a FusionPlan, such as fusion.plan_from_groups(graph, groups)"
            " makes of groups of operator positions"
        )

    def test_that_returns_nothing(self) -> None:
        class Silent(OneKernel):
            def plan(self, graph: Graph, costs: KernelCosts) -> Any:
                """Forget the return."""

        assert "plan returns nothing; needs a FusionPlan" in refusal(Silent())

    def test_that_returns_a_plan_of_nonsense(self) -> None:
        class Nonsense(OneKernel):
            def plan(self, graph: Graph, costs: KernelCosts) -> Any:
                return FusionPlan(graph, ("conv",))  # type: ignore[arg-type]

        assert refusal(Nonsense()).startswith("policy one-kernel fails: AttributeError: ")

    def test_that_returns_no_schedule(self) -> None:
        class Listing(OwnSchedule):
            def schedule(self, plan: FusionPlan, costs: DsaCosts) -> Any:
                return [plan]

        assert refusal(Listing(), schedules=True) == (
            "policy own-schedule: schedule returns a list; needs a dsascape.scheduler.dsa.schedule.schedule.Schedule,"
            " which is what runs on small"
        )

    def test_that_fails_while_it_plans(self) -> None:
        class Failing(OneKernel):
            def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
                raise KeyError("conv9")

        told = refusal(Failing())
        assert told.startswith(f"policy one-kernel fails: KeyError: 'conv9' ({__file__}, line ")
        assert told.endswith(", in plan)")

    def test_that_fails_while_it_schedules(self) -> None:
        class Failing(OwnSchedule):
            def schedule(self, plan: FusionPlan, costs: DsaCosts) -> Schedule:
                raise IndexError("run 3")

        told = refusal(Failing(), schedules=True)
        assert told.startswith(f"policy own-schedule fails: IndexError: run 3 ({__file__}, line ")
