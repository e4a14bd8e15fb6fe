"""Analytical cache model: lines of array tiles, loop nests, and the traffic that a cache passes on."""
