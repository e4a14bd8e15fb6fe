"""C versions of the hot parts of tile search and lowering; `hw_models.in_c` decides whether they are used."""
