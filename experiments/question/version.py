"""The version that results are stored under: another one computes its points again."""

__version__ = "0.1.0"
