"""Caches: lines, nests of loops that touch them, and what caches pass on meanwhile."""
