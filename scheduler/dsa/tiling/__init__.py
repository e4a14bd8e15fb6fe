"""Tiles of a layer on the cores of a cluster: what there is to decide, what it costs, and the search for it."""
