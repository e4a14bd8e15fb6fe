"""GraphTurbo on a clustered DSA: core binding of instances, placement of tensors, traffic bounds of plans."""
