"""Costs of kernels on GPUs, from their loop programs."""
