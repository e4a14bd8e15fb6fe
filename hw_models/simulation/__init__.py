"""The discrete-event simulation: programs, machines, time, energy."""
