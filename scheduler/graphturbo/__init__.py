"""GraphTurbo (OSDI '23), the steps that know no machine: splitting, grouping, instances, their order."""
