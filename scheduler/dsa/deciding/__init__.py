"""Choice among schedules on a DSA: tile requests, unit assignment, evaluation by simulation."""
