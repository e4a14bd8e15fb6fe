"""CPUs with caches: the spec that a file fills in, the caches' traffic, the machine that is simulated."""
