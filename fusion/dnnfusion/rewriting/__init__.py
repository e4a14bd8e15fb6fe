"""Rewriting a network by the mathematical properties of its operators."""

from dsascape.fusion.dnnfusion.rewriting.rewrite import Application, Rewritten, rewritten
from dsascape.fusion.dnnfusion.rewriting.rules import RULES, Condition, Rule

__all__ = ["RULES", "Application", "Condition", "Rewritten", "Rule", "rewritten"]
