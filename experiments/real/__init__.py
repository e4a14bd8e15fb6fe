"""Design points on real devices, predicted times beside measured ones."""
