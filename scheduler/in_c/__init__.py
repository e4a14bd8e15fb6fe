"""What of lowering is written in C: see `hw_models.in_c`."""
