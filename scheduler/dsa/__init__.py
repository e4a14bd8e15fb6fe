"""Scheduling for clustered scratchpad accelerators: the schedule, how it is decided, and its lowering."""
