"""On any random network, each planner's groups are a partition that can run in order."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.ago import Tuning, Weights, ago_plan
from dsascape.fusion.dnnfusion import Exploration, dnnfusion_plan
from dsascape.fusion.dnnfusion.rewriting import rewritten
from dsascape.fusion.plan import FusionPlan, violations
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.fusion.random_dags import random_dag
from tests.tiers import examples

Planner = Callable[[Graph], FusionPlan]
SEEDS = st.integers(0, 2**32)


def grown_from_seeds(graph: Graph) -> FusionPlan:
    return dnnfusion_plan(Analysis(graph), Exploration(kernel_s=None))


def grown_with_profiles(graph: Graph) -> FusionPlan:
    """Plan with answers that are neither monotone nor alike."""
    return dnnfusion_plan(Analysis(graph), Exploration(kernel_s=lambda ops: 1 + (sum(ops) * 7919 % 13) + len(ops)))


@settings(max_examples=examples(100))
@given(seed=SEEDS, loose=st.floats(1.0, 3.0))
def test_bounds_on_profiles_change_no_plan(seed: int, loose: float) -> None:
    graph = random_dag(seed)

    def kernel_s(ops: Sequence[int]) -> float:
        return float(1 + (sum(ops) * 7919 % 13) + len(ops))

    def most_s(ops: Sequence[int]) -> float:
        return kernel_s(ops) * loose if sum(ops) % 3 else math.inf

    how = Exploration(kernel_s=kernel_s)
    bounded = replace(how, least_s=lambda ops: kernel_s(ops) / loose, most_s=most_s)
    assert dnnfusion_plan(Analysis(graph), bounded).groups == dnnfusion_plan(Analysis(graph), how).groups


def clustered(graph: Graph) -> FusionPlan:
    return ago_plan(Analysis(graph), Tuning(weights=Weights(1.0, 0.0, math.e), threshold=60.0))


def clustered_with_costs(graph: Graph) -> FusionPlan:
    """Plan with a small threshold, so that there are many sub-graphs, and answers that favour neither way."""
    tuning = Tuning(
        weights=Weights(1.0, 0.0, math.e),
        threshold=60.0,
        kernel_s=lambda ops: 1 + (sum(ops) * 7919 % 13) + len(ops),
    )
    return ago_plan(Analysis(graph), tuning)


PLANNERS: tuple[Planner, ...] = (grown_from_seeds, grown_with_profiles, clustered, clustered_with_costs)


@pytest.mark.parametrize("planner", PLANNERS)
class TestEveryPlanner:
    """Each algorithm is there twice, so that it sees a thousand networks."""

    @settings(max_examples=examples(500))
    @given(seed=SEEDS)
    def test_plans_are_acyclic_partitions(self, planner: Planner, seed: int) -> None:
        assert violations(planner(random_dag(seed))) == []

    @settings(max_examples=examples(50))
    @given(seed=SEEDS)
    def test_every_group_says_why_it_took_no_more(self, planner: Planner, seed: int) -> None:
        assert all(group.boundary_reason for group in planner(random_dag(seed)).groups)


def described() -> str:
    """Return the plans of a few networks, and a rewritten one, as text."""
    plans = [str(planner(random_dag(seed))) for planner in PLANNERS for seed in range(5)]
    found = rewritten(Analysis(load_network("bert-tiny-raw")))
    return "\n".join([*plans, *map(str, found.applications), str(found.graph)])


def test_plans_are_the_same_in_another_process() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", "from tests.fusion.test_random_dags import described; print(described())"]
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == described().strip()
