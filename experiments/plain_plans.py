"""Plans for measuring, where no machine is given that a policy could ask what kernels cost."""

from dataclasses import dataclass
from typing import NoReturn

from fusion.plan import FusionPlan
from scheduler import Policy, ScheduleError, make_network
from workloads.analysis import Analysis
from workloads.graph import Graph


@dataclass(frozen=True)
class _Unknown:
    """The costs of kernels on no machine in particular (`fusion.costs.KernelCosts`): nothing is known of them."""

    analysis: Analysis
    dtype: str
    policy: str

    def __getattr__(self, name: str) -> NoReturn:
        raise ScheduleError(
            f"policy {self.policy} asks what kernels cost on a machine ({name}); measuring without one takes policies"
            " that do not, such as fixed-pattern and unfused"
        )


def plan_without_machine(policy: Policy, graph: Graph) -> FusionPlan:
    """Return the policy's plan of ``graph``; raise ``ScheduleError`` if it depends on the machine."""
    costs = _Unknown(make_network(policy, Analysis(graph)), "fp32", policy.name)
    return policy.plan(costs.analysis.graph, costs)
