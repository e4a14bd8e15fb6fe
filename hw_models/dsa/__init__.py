"""Clustered scratchpad accelerators: spec, cost model and simulated machine."""
