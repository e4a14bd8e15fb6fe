"""Policies for scratchpad machines, one file each."""
