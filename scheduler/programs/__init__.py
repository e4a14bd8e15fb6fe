"""Building programs of instructions, reusing fragments of them, and list scheduling."""
