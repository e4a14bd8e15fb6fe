"""Placement of tensors in a DSA's memories: live ranges, free space, addresses."""
