"""Engines that compute design points: worker processes or a dask cluster, with limits, resumption and searches."""
