"""DNNFusion (PLDI '21): mapping types, rewriting with mathematical properties, plans that grow from seeds."""

from dsascape.fusion.dnnfusion.combination import Relation, combined, relation
from dsascape.fusion.dnnfusion.extended import ExtendedOperator, extended, mapping_types, removable
from dsascape.fusion.dnnfusion.mapping import MappingType, mapping_type
from dsascape.fusion.dnnfusion.planning import Direction, Exploration, dnnfusion_plan, rewriting_gains

__all__ = [
    "Direction",
    "Exploration",
    "ExtendedOperator",
    "MappingType",
    "Relation",
    "combined",
    "dnnfusion_plan",
    "extended",
    "mapping_type",
    "mapping_types",
    "relation",
    "removable",
    "rewriting_gains",
]
