"""Machine kinds that can be scheduled for: the record each kind fills in, and the table of kinds."""
