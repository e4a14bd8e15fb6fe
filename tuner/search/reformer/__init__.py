"""AGO's reformer: kernels with several complex operators are tuned in parts first, then as a whole (section V)."""
