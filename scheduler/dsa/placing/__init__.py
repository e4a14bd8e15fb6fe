"""Where tensors lie in a DSA's memories: live ranges, free space, addresses."""
