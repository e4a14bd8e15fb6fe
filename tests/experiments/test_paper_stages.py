"""Fig. 17: in which stage of ResNet-50 the engines compute for how much of the time."""

import pytest

from experiments.evaluate import evaluate
from experiments.papers.graphturbo_stages import MODEL, STAGES, usage
from experiments.points import DesignPoint, Workload
from hw_models import load_hardware
from scheduler import make_policy

BATCH = 16


def used(policy: str) -> dict[str, dict[str, float]]:
    outcome = evaluate(DesignPoint(Workload(MODEL, BATCH), load_hardware("stcp920"), make_policy(policy)))
    return {stage: dict(units) for stage, units in usage(outcome).items()}


@pytest.mark.parametrize("policy", ["fixed-pattern", "graphturbo"])
def test_every_stage_has_its_share_and_none_computes_more_than_all_the_time(policy: str) -> None:
    found = used(policy)

    assert list(found) == list(STAGES.values())
    assert all(0 < share <= 1 for units in found.values() for share in units.values())


def test_graphturbo_keeps_the_matrix_engine_busier_where_images_are_small() -> None:
    plain, turbo = used("fixed-pattern"), used("graphturbo")

    assert all(turbo[stage]["matrix"] > plain[stage]["matrix"] for stage in ("stage 2", "stage 3", "stage 4"))


@pytest.mark.parametrize(
    ("footprint", "convolutions"),
    [("made", {8: 11, 4: 13, 2: 19, 1: 10}), ("all", {8: 15, 4: 13, 2: 19, 1: 6})],
)
def test_sub_graphs_are_the_stages_where_inputs_are_not_counted(footprint: str, convolutions: dict[int, int]) -> None:
    """Fig. 3: stages of 11, 13, 19 and 10 convolutions. Counting inputs, the first has the second's first block too."""
    policy = make_policy("graphturbo", {"footprint": footprint})
    plan = evaluate(DesignPoint(Workload(MODEL, 64), load_hardware("stcp920"), policy)).schedule.plan
    kinds = [op.kind for op in plan.graph.ops]

    assert {group.instances: [kinds[op] for op in group.ops].count("Conv") for group in plan.groups} == convolutions
