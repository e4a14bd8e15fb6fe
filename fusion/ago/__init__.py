"""AGO (INFOCOM '23): a weighted acyclic partition without patterns, and when two complex operators share a kernel."""

from dsascape.fusion.ago.clustering import (
    THRESHOLD,
    SubGraph,
    cluster,
    heavy_layers,
    join,
    split,
    threshold_for_any_two,
)
from dsascape.fusion.ago.planning import Tuning, ago_plan, sub_graphs
from dsascape.fusion.ago.redundancy import Redundancy, can_be_tiled, redundancy, reused_dims, tiled_dims
from dsascape.fusion.ago.weights import BASE, BIAS, SLOPE, OperatorWeights, Weights, is_complex

__all__ = [
    "BASE",
    "BIAS",
    "SLOPE",
    "THRESHOLD",
    "OperatorWeights",
    "Redundancy",
    "SubGraph",
    "Tuning",
    "Weights",
    "ago_plan",
    "can_be_tiled",
    "cluster",
    "heavy_layers",
    "is_complex",
    "join",
    "redundancy",
    "reused_dims",
    "split",
    "sub_graphs",
    "threshold_for_any_two",
    "tiled_dims",
]
