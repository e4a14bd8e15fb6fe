"""Groupings searched with a cost of kernels: better ones than those that are given, found by cutting pairs anew."""

from dsascape.fusion.searched.grouping import Asked, Grouping, grouping_of, improved
from dsascape.fusion.searched.intervals import best_intervals
from dsascape.fusion.searched.neighbours import neighbours

__all__ = ["Asked", "Grouping", "best_intervals", "grouping_of", "improved", "neighbours"]
