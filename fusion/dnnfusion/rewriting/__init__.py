"""Rewriting a network by the mathematical properties of its operators."""

from fusion.dnnfusion.rewriting.rewrite import Application, Rewritten, rewritten
from fusion.dnnfusion.rewriting.rules import RULES, Condition, Rule

__all__ = ["RULES", "Application", "Condition", "Rewritten", "Rule", "rewritten"]
