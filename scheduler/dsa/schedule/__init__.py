"""Schedules of DSAs as records, their JSON, and what makes one illegal."""
