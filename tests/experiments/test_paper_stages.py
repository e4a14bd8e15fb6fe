"""Fig. 17: utilisation of the engines in each stage of ResNet-50."""

import pytest

from dsascape.experiments.papers.graphturbo_stages import MODEL, STAGES, sub_graphs, usage
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy
from dsascape.workloads import Graph

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
    ("footprint", "expected"),
    [
        ("made", [(8, 25, 11, "256 x 56 x 56"), (4, 29, 13, "512 x 28 x 28"), (2, 43, 19, "1024 x 14 x 14")]),
        ("all", [(8, 33, 15, "512 x 28 x 28"), (4, 29, 13, "1024 x 14 x 14"), (2, 43, 19, "2048 x 7 x 7")]),
    ],
)
def test_sub_graphs_end_where_stages_do_if_inputs_are_not_counted(
    footprint: str, expected: list[tuple[int, int, int, str]]
) -> None:
    """Fig. 3: 8, 4 and 2 instances of three stages. Counting inputs, each has the next stage's first block as well."""
    policy = make_policy("graphturbo", {"footprint": footprint})
    outcome = evaluate(DesignPoint(Workload(MODEL, 64), load_hardware("stcp920"), policy))

    assert sub_graphs(outcome)[:3] == expected
    assert sum(operators for _, operators, _, _ in sub_graphs(outcome)) == len(outcome.schedule.graph.ops)


def operators_by_last_tensor(outcome: Outcome) -> dict[str, set[int]]:
    """Return what is computed up to the last tensor of each image size, and no sooner: the stages of Fig. 3."""
    graph = outcome.schedule.graph
    producers = {name: number for number, op in enumerate(graph.ops) for name in op.outputs}
    stages: dict[str, set[int]] = {}
    before: set[int] = set()
    for rows, stage in STAGES.items():
        ends = [n for n, op in enumerate(graph.ops) if op.kind == "Relu" and _blocks(graph, n, rows)]
        left, found = [max(ends)], set[int]()
        while left:
            number = left.pop()
            if number not in found | before:
                found.add(number)
                left += [producers[name] for name in graph.ops[number].inputs if name in producers]
        stages[stage] = found
        before |= found
    return stages


def _blocks(graph: Graph, number: int, rows: int) -> bool:
    """Return whether an operator makes a block's output: the widest tensor of images of so many rows."""
    return graph.tensors[graph.ops[number].outputs[0]].shape[1:3] == (256 * 56 // rows, rows)


def test_they_hold_the_operators_of_the_stages_and_no_others() -> None:
    policy = make_policy("graphturbo", {"footprint": "made"})
    outcome = evaluate(DesignPoint(Workload(MODEL, 64), load_hardware("stcp920"), policy))
    stages, groups = operators_by_last_tensor(outcome), [set(group.ops) for group in outcome.schedule.plan.groups]

    assert groups[:3] == list(stages.values())[:3]
    assert groups[3] >= stages["stage 4"]  # and the classifier
