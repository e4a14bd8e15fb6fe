"""GPUs: the spec that a file fills in, what an SM holds at a time, the machine that is simulated."""
