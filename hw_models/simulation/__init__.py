"""Discrete-event simulation: programs, machines, time, energy."""
