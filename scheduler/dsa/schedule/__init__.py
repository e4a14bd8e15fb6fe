"""Schedules of DSAs: records, JSON, limits and validity checks."""
