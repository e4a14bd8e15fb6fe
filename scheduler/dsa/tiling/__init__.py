"""Tile search for a layer on the cores of a cluster: candidates, cost estimate, search."""
