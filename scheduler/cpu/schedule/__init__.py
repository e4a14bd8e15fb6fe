"""Schedules of CPUs as records: tiles, chunks, and their JSON."""
