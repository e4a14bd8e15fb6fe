"""Errors between a network and its program that the user can correct."""


class ScheduleError(ValueError):
    """Raised when a network cannot be scheduled on the machine as it is; the message says what to change."""


class PinError(ScheduleError):
    """Raised for a pinned decision that a layer cannot have, or that belongs to no layer."""
