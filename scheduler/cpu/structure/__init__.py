"""The structure of a CPU kernel: loop nests, anchors, chains of operators, passes over memory."""
