"""What a CPU kernel costs: instructions by class, traffic of each cache level, time."""
