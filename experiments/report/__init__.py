"""The self-contained HTML report of an experiment; nothing is imported here, as words are wanted without pictures."""
