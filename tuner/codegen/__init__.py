"""Real code for fusion plans: TVM kernels that have the loops that a schedule says."""
