"""Extended computational graph (section 3.2): properties of every operator that rewriting and fusion use.

They are derived from the loop nests and the rules; none is stored with the network.
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
    """Properties of one operator: its mapping type, and the laws under which rules may rewrite it."""

    mapping_type: MappingType
    laws: frozenset[Law]


def extended(analysis: Analysis) -> tuple[ExtendedOperator, ...]:
    """Return the extended properties of each operator of a network, in its order."""
    graph, laws = analysis.graph, _laws()
    return tuple(ExtendedOperator(mapping_type(graph, op), laws.get(op.kind, frozenset())) for op in graph.ops)


def mapping_types(analysis: Analysis) -> tuple[MappingType, ...]:
    """Return the mapping type of every operator."""
    return tuple(operator.mapping_type for operator in analysis.of(extended))


@lru_cache(maxsize=1)
def _laws() -> Mapping[str, frozenset[Law]]:
    """Return, per operator kind, the laws of the rules in which it occurs."""
    laws: dict[str, frozenset[Law]] = {}
    for rule in RULES:
        for kind in kinds_in(rule.pattern):
            laws[kind] = laws.get(kind, frozenset()) | {rule.law}
    return laws


def removable(plan: FusionPlan) -> Mapping[str, bool]:
    """Return, per operator result, whether it need not be stored because all its readers are in its own block.

    This is the paper's ``IR_removable``, which is determined only once the blocks are.
    """
    graph, group_of = plan.graph, plan.group_of
    return {
        name: name not in graph.results and all(group_of[r] == group_of[position] for r in graph.consumers[name])
        for position, op in enumerate(graph.ops)
        for name in op.outputs
    }
