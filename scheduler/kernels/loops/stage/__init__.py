"""The loops of one stage of a loop program: levels of tiles, vectors, shared sums, blocks and threads."""
