"""Values of a loop program's stages for one element: what they read, and what becomes of it, for all `Numbers`."""
