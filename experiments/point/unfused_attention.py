"""Warnings about attention that runs as several kernels where a policy has it in one on the same machine."""

import math
from collections.abc import Iterator, Sequence

from dsascape.experiments.point.job import Outcome
from dsascape.fusion.eager import EAGER, Attention, attentions_of
from dsascape.hw_models import AnyHardware
from dsascape.scheduler import Placing
from dsascape.scheduler.kinds.table import KINDS
from dsascape.scheduler.layer_names import CutsKernels
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis

_SEARCHED = "searched"
"""Policy on every kind in ``KINDS``; importing it takes longer than most points."""


def unfused_attention(outcome: Outcome, hardware: AnyHardware) -> Iterator[str]:
    """Yield a sentence if attention runs as several kernels under the policy of a run, and another has it in one.

    ``searched`` is named where one kernel is estimated to be faster than those of the run, ``eager`` where it is only
    possible. The first such attention stands for all others.
    """
    schedule = outcome.schedule
    graph = schedule.graph
    kernel_of = {
        op: group if schedule.launches else number
        for number, (group, layer) in enumerate(schedule.placed_layers) for op in layer.ops
    }  # fmt: skip
    unfused: list[tuple[Attention, list[list[int]]]] = []
    for attention in attentions_of(graph):
        parts: dict[int | None, list[int]] = {}
        for op in attention.ops:
            parts.setdefault(kernel_of.get(op), []).append(op)
        working = [part for number, part in parts.items() if number is not None]
        if len(working) > 1:
            unfused.append((attention, working))
    if not unfused:
        return
    first, kernels = unfused[0]
    policy = _policy_with_one(first, kernels, outcome, hardware)
    if policy and schedule.policy.partition("(")[0] != policy:
        others = f", as {count(len(unfused) - 1, 'other')}" if len(unfused) > 1 else ""
        yield (
            f"attention ({graph.ops[first.ops[0]].name}) runs in {count(len(kernels), 'kernel')} under"
            f" {schedule.policy}{others}; --policy {policy} has it in one on this machine"
        )


def _policy_with_one(
    attention: Attention, kernels: Sequence[Sequence[int]], outcome: Outcome, hardware: AnyHardware
) -> str:
    """Return the name of a policy that has ``attention`` in one kernel; empty if none is known."""
    costs = Placing(hardware=hardware, parts=1, dtype=outcome.record.dtype).costs(Analysis(outcome.schedule.graph))
    if isinstance(costs, CutsKernels) and len(costs.layers_of(attention.ops)) > 1:
        return ""
    as_one_s = costs.kernel_s(attention.ops)
    if math.isinf(as_one_s):
        return ""
    if hardware.kind in KINDS and as_one_s < sum([costs.kernel_s(part) for part in kernels]):
        return _SEARCHED
    return EAGER if attention.queries > 1 else ""
