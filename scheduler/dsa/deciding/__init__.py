"""Which of several schedules runs on a DSA: requests for tiles, evaluation, the choice of units."""
