"""Scheduling on GPUs: kernels as grids of thread blocks."""
