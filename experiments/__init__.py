"""Experiments: experiment files, sweeps, measurements, reports and the command line."""
