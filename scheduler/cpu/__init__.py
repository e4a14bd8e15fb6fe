"""Scheduling on CPUs with caches: kernels as tiled loops that are split over cores."""
