"""The cost of a loop program, counted on its tree."""
