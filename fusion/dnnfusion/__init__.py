"""DNNFusion (PLDI '21): mapping types, rewriting with mathematical properties, plans that grow from seeds."""

from fusion.dnnfusion.combination import Relation, combined, relation
from fusion.dnnfusion.mapping import MappingType, mapping_type
from fusion.dnnfusion.planning import Direction, Exploration, dnnfusion_plan, mapping_types, removable

__all__ = [
    "Direction",
    "Exploration",
    "MappingType",
    "Relation",
    "combined",
    "dnnfusion_plan",
    "mapping_type",
    "mapping_types",
    "relation",
    "removable",
]
