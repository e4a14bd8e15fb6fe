"""DNNFusion's rewriting is kept where the planned network gains by it, and the schedule's label says so."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw_models import load_hardware
from scheduler import Placing, make_plan, make_schedule, network_of
from scheduler.policies.dnnfusion import DnnFusion
from tests.fusion.random_dags import random_dag
from tests.graphs import Net
from workloads import Graph, load_network
from workloads.analysis import Analysis

MACHINES = ("snapdragon865", "stcp920", "h100")


def placed(machine: str) -> Placing:
    return Placing(hardware=load_hardware(machine), parts=1, dtype="fp32" if machine == "snapdragon865" else "fp16")


def lengths(graph: Graph, machine: str, *ways: bool | None) -> list[tuple[int, float]]:
    """Return the kernels of DNNFusion's plan, and the seconds that the machine takes for them one by one."""
    placing, found = placed(machine), []
    for rewriting in ways:
        policy = DnnFusion(rewriting=rewriting)
        costs = placing.costs(policy.rewritten(Analysis(graph)))
        plan = make_plan(policy, placing, costs)
        own = placing.costs(network_of(plan, costs.analysis))
        found.append((plan.kernels, sum(own.kernel_s(group.ops) for group in plan.groups)))
    return found


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_plan_is_never_longer_for_the_rewriting(machine: str, seed: int) -> None:
    graph = random_dag(seed, 14).with_dtype(placed(machine).dtype)
    (kernels, seconds), (most, limit) = lengths(graph, machine, None, False)

    assert kernels <= most
    assert seconds <= limit * (1 + 1e-9)


def test_a_network_that_would_have_more_kernels_stays_as_it_is() -> None:
    graph = load_network("mobilebert-raw", sequence=8)
    (kernels, _), (without, _), (with_rules, _) = lengths(graph, "snapdragon865", None, False, True)

    assert kernels == without < with_rules


def test_a_schedule_of_a_network_rewritten_while_planning_is_read_back_as_one() -> None:
    net = Net()
    x = net.binary("Mul", net.bias(net.dense(net.input(2, 8, 4), 4)), net.weight(4))
    graph = net.graph(net.relu(net.bias(x)), dtype="fp32")
    placing, policy = placed("snapdragon865"), DnnFusion()
    costs = placing.costs(Analysis(graph))
    plan = make_plan(policy, placing, costs)
    own = placing.costs(network_of(plan, costs.analysis))
    schedule = make_schedule(policy, plan, placing, own)

    assert plan.rewritten
    assert schedule.policy == "dnnfusion(rewriting=true)"
    text = json.dumps(placing.kind.write(schedule))
    again = DnnFusion(rewriting=True).rewritten(Analysis(graph))
    read = placing.kind.read(json.loads(text), placing.costs(again))
    assert read.plan.kernels == plan.kernels
