"""Errors between a network and its program that the user can correct."""


class ScheduleError(ValueError):
    """Raised when a network cannot be scheduled on the machine as it is; the message says what to change."""
