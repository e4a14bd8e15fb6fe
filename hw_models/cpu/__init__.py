"""CPUs with caches: spec, cost model of cores, simulated machine."""
