"""GPUs: spec, occupancy, cost model of SMs, simulated machine."""
