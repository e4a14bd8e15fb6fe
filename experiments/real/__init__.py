"""Design points on real devices: predicted times compared with measured ones."""
