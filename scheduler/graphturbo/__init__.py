"""GraphTurbo (OSDI '23), one step of the paper a file: splitting, grouping, instances, ordering, placement."""
