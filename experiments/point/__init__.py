"""One design point: from its workload and machine to its simulated figures."""
