"""Clustered scratchpad accelerators: their spec, and the machine that it describes."""
