"""Search of groupings by kernel cost: local search from given plans, and dynamic programming over intervals."""

from dsascape.fusion.searched.grouping import BudgetedCosts, Grouping, grouping_of, improved
from dsascape.fusion.searched.intervals import best_intervals
from dsascape.fusion.searched.neighbours import neighbours

__all__ = ["BudgetedCosts", "Grouping", "best_intervals", "grouping_of", "improved", "neighbours"]
