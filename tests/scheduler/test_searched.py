"""The searched plan is never slower than any other policy's, on the machine it was searched for."""

import pytest
from hypothesis import given, settings

from dsascape.hw_models import AnyHardware, Cpu, load_hardware
from dsascape.scheduler import Placing, Policy, evaluate_network, make_plan, make_policy
from dsascape.scheduler.policies.searched import RIVALS, Searched
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.hw_models.cpu.cpus import cpu
from tests.tiers import examples

QUICK = Searched(most_kernels=100, most_neighbours=3)
LONG = ["dcgan-adreno640", *(f"{name}-{on}" for name in ("squeezenet", "bert-tiny") for on in ("stcp920", "adreno640"))]
"""Cases that take five seconds and more."""


def makespan_ps(graph: Graph, spec: AnyHardware, policy: Policy) -> int:
    placing = Placing(hardware=spec, parts=1, dtype="fp32" if isinstance(spec, Cpu) else "fp16")
    return evaluate_network(policy, placing, placing.costs(Analysis(graph))).result.makespan_ps


def rivals_on(spec: AnyHardware) -> list[Policy]:
    return [rival for rival in RIVALS.values() if spec.kind in getattr(rival, "kinds", (spec.kind,))]


@settings(max_examples=examples(8, few=2))
@given(graph=networks(most_blocks=2, dtype="fp32"))
def test_on_a_cpu_no_other_policy_is_faster(graph: Graph) -> None:
    spec = cpu()

    found = makespan_ps(graph, spec, QUICK)

    assert all(found <= makespan_ps(graph, spec, rival) for rival in rivals_on(spec))


@pytest.mark.sampled(1, long=LONG)
@pytest.mark.parametrize("hardware", ["stcp920", "adreno640"])
@pytest.mark.parametrize("name", ["squeezenet", "bert-tiny", "dcgan"])
def test_on_a_dsa_or_a_gpu_no_other_policy_is_faster(name: str, hardware: str) -> None:
    spec, graph = load_hardware(hardware), load_network(name, batch=4).with_dtype("fp16")

    found = makespan_ps(graph, spec, QUICK)

    assert all(found <= makespan_ps(graph, spec, rival) for rival in rivals_on(spec))


def test_kernels_that_no_other_policy_has_are_found_where_they_pay() -> None:
    net = Net()
    x = net.relu(net.conv(net.input(1, 32, 28, 28), 64, 1))
    graph = net.graph(net.relu(net.conv(net.relu(net.depthwise(x)), 32, 1)), dtype="fp32")
    placing = Placing(hardware=load_hardware("adreno640"), parts=1, dtype="fp32")

    against = make_policy("searched", {"rivals": "fixed-pattern,unfused"})
    plan = make_plan(against, placing, placing.costs(Analysis(graph)))

    assert "faster than fixed-pattern, the fastest other" in plan.origin
    assert plan.origin.endswith("1 group is in none of them, the largest from conv2 to relu3 (4 operators)")
    assert plan.scheduled_by == ""


def test_a_plan_says_which_policy_it_comes_from_where_nothing_found_is_faster() -> None:
    placing = Placing(hardware=load_hardware("stcp920"), parts=1, dtype="fp16")
    graph = load_network("dcgan", batch=1).with_dtype("fp16")

    plan = evaluate_network(QUICK, placing, placing.costs(Analysis(graph))).schedule.plan

    assert plan.origin == "as graphturbo has it: nothing else that was simulated is faster"
    assert plan.scheduled_by == "graphturbo"


def test_a_schedule_of_a_rewritten_network_says_so() -> None:
    """So that its file is read as one of the rewritten network."""
    placing = Placing(hardware=load_hardware("stcp920"), parts=1, dtype="fp16")
    graph = load_network("bert-tiny", batch=1).with_dtype("fp16")
    analysis = Analysis(graph)

    evaluated = evaluate_network(QUICK, placing, placing.costs(analysis))
    plan = evaluated.plan

    assert plan.rewritten == (plan.graph is not graph)
    rewritten = Searched(rewriting=True)
    again = rewritten.rewritten(analysis)
    assert (plan.graph is again.graph) == plan.rewritten
    assert evaluated.schedule.policy == ("searched(rewriting=true)" if plan.rewritten else "searched")
