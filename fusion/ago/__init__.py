"""AGO (INFOCOM '23): a weighted acyclic partition without patterns, and when two complex operators share a kernel."""

from dsascape.fusion.ago.clustering import THRESHOLD, SubGraph, cluster, join, split, threshold_of
from dsascape.fusion.ago.planning import Tuning, ago_plan
from dsascape.fusion.ago.redundancy import Redundancy, can_be_tiled, redundancy, reused_dims, tiled_dims
from dsascape.fusion.ago.weights import BASE, BIAS, SLOPE, Weights, is_complex

__all__ = [
    "BASE",
    "BIAS",
    "SLOPE",
    "THRESHOLD",
    "Redundancy",
    "SubGraph",
    "Tuning",
    "Weights",
    "ago_plan",
    "can_be_tiled",
    "cluster",
    "is_complex",
    "join",
    "redundancy",
    "reused_dims",
    "split",
    "threshold_of",
    "tiled_dims",
]
