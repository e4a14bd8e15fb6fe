"""Loop programs: the loops of one kernel, made of its naive program by rewriting steps."""
