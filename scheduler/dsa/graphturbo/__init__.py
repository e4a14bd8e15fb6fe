"""GraphTurbo on a clustered DSA: instances bound to cores, tensors placed, plans compared by what they move."""
