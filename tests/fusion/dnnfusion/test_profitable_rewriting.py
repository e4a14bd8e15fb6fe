"""A rewriting is kept if the rewritten network's plan has no more kernels and takes no more estimated time."""

import math
import random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import FusionPlan
from dsascape.fusion.dnnfusion.rewriting import rewritten
from dsascape.hw_models import load_hardware
from dsascape.scheduler import Placing, make_plan, make_schedule, network_of
from dsascape.scheduler.policies.dnnfusion import DnnFusion
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.tiers import examples

SIDE = 16
MACHINES = ("snapdragon865", "adreno650")
Yellow = Literal["profile", "fuse"]


def random_network(seed: int) -> Graph:
    """Return sums, products, functions and scales of matrices, each of what came before it."""
    draw, net = random.Random(seed), Net()
    names = [net.input(SIDE, SIDE)]
    for _ in range(draw.randint(3, 25)):
        one, other = draw.choice(names[-4:]), draw.choice(names)
        kind = draw.choice(("Add", "Mul", "Sub", "MatMul", "Relu", "Exp", "Tanh", "scale", "shift", "Transpose"))
        if kind in ("scale", "shift"):
            made = net.binary({"scale": "Mul", "shift": "Add"}[kind], one, net.weight(SIDE))
        elif kind == "MatMul":
            made = net.matmul(one, draw.choice((other, net.weight(SIDE, SIDE))))
        elif kind == "Transpose":
            made = net.transpose(one, 1, 0)
        elif kind in ("Relu", "Exp", "Tanh"):
            made = net.unary(kind, one)
        else:
            made = net.binary(kind, one, other)
        names.append(made)
    return net.graph(names[-1], dtype="fp32")


def plans(graph: Graph, machine: str, yellow: Yellow = "profile") -> tuple[list[FusionPlan], list[float]]:
    """Return the plan of the network as it is, and the one that is chosen; and the seconds of their kernels."""
    placing = Placing(hardware=load_hardware(machine), parts=1, dtype="fp32")
    analysis = Analysis(graph)
    found = []
    for rewriting in (False, None):
        policy = DnnFusion(rewriting=rewriting, yellow=yellow)
        found.append(make_plan(policy, placing, placing.costs(analysis)))
    seconds = []
    for plan in found:
        costs = placing.costs(network_of(plan, analysis))
        seconds.append(math.fsum(costs.kernel_s(group.ops) for group in plan.groups))
    return found, seconds


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), machine=st.sampled_from(["snapdragon865", "adreno650", "stcp920"]))
def test_rewriting_makes_no_plan_longer_and_no_kernels_slower(seed: int, machine: str) -> None:
    (plain, chosen), (plain_s, chosen_s) = plans(random_network(seed), machine)

    assert chosen.kernels <= plain.kernels
    assert chosen_s <= plain_s * (1 + 1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_where_no_machine_is_asked_it_makes_no_plan_longer_and_hands_on_no_more(seed: int) -> None:
    (plain, chosen), _ = plans(random_network(seed), "snapdragon865", "fuse")

    assert chosen.kernels <= plain.kernels
    assert chosen.intermediate_bytes <= plain.intermediate_bytes


LONG = [f"{name}-raw-{machine}" for name in ("squeezenet", "mobilevit", "mobilebert") for machine in MACHINES]
"""Networks that take four seconds and more."""


@pytest.mark.sampled(3, long=LONG)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["bert-tiny-raw", "squeezenet-raw", "mobilevit-raw", "gpt2-raw", "mobilebert-raw"])
def test_rewriting_makes_no_network_of_the_zoo_longer(name: str, machine: str) -> None:
    (plain, chosen), (plain_s, chosen_s) = plans(load_network(name), machine)

    assert chosen.kernels <= plain.kernels
    assert chosen_s <= plain_s * (1 + 1e-9)


def test_a_schedule_of_a_rewritten_network_is_one_of_the_policy_that_rewrites_first() -> None:
    placing = Placing(hardware=load_hardware("snapdragon865"), parts=1, dtype="fp32")
    analysis = Analysis(load_network("bert-tiny-raw"))
    policy = DnnFusion()
    plan = make_plan(policy, placing, placing.costs(analysis))
    schedule = make_schedule(policy, plan, placing, placing.costs(network_of(plan, analysis)))

    assert plan.rewritten
    assert plan.graph is analysis.of(rewritten).graph
    assert schedule.policy == "dnnfusion(rewriting=true)"
