"""Asking questions at scale: experiment files, sweeps, reports, the command line; `dsascape` is the Python side."""
