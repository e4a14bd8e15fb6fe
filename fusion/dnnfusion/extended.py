"""The extended computational graph (section 3.2): what rewriting and fusion know of every operator beyond the network.

It is read off the loop nests and the rules; nothing of it is stored beside the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dsascape.fusion.dnnfusion.mapping import MappingType, mapping_type
from dsascape.fusion.dnnfusion.rewriting.rules import RULES, Law
from dsascape.fusion.dnnfusion.rewriting.terms import kinds_in
from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.analysis import Analysis


@dataclass(frozen=True, slots=True)
class ExtendedOperator:
    """One operator: how its inputs become its outputs, and under which laws rules may rewrite it."""

    mapping_type: MappingType
    laws: frozenset[Law]


def extended(analysis: Analysis) -> tuple[ExtendedOperator, ...]:
    """Return what is known of each operator of a network, in its order."""
    graph, laws = analysis.graph, _laws()
    return tuple(ExtendedOperator(mapping_type(graph, op), laws.get(op.kind, frozenset())) for op in graph.ops)


def mapping_types(analysis: Analysis) -> tuple[MappingType, ...]:
    """Return the mapping type of every operator."""
    return tuple(operator.mapping_type for operator in analysis.of(extended))


@lru_cache(maxsize=1)
def _laws() -> Mapping[str, frozenset[Law]]:
    """Return the laws by the kinds of operators in whose rules they occur."""
    found: dict[str, frozenset[Law]] = {}
    for rule in RULES:
        for kind in kinds_in(rule.pattern):
            found[kind] = found.get(kind, frozenset()) | {rule.law}
    return found


def removable(plan: FusionPlan) -> Mapping[str, bool]:
    """Return for every intermediate result whether it need not be kept: all its readers are in its own block.

    ``IR_removable``, which is known only when the blocks are.
    """
    graph, group_of = plan.graph, plan.group_of
    return {
        name: name not in graph.results and all(group_of[r] == group_of[position] for r in graph.consumers[name])
        for position, op in enumerate(graph.ops)
        for name in op.outputs
    }
