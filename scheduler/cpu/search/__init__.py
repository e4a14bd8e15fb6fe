"""The search for the tiles of a CPU kernel."""
