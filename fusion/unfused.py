"""No fusion: every operator is its own kernel; views join the producer of their tensor."""

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.workloads.graph import Graph


def unfused_plan(graph: Graph) -> FusionPlan:
    """Return one group per operator that moves or computes anything."""
    ops_of: dict[int, list[int]] = {}
    owner: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        producer = graph.producer.get(op.inputs[0]) if op.is_view else None
        owner[position] = position if producer is None else owner[producer]
        ops_of.setdefault(owner[position], []).append(position)
    groups = (Group(tuple(ops), "policy: one operator a kernel") for ops in ops_of.values())
    return plan_from_groups(graph, groups)
