"""Mistakes between a network and a program that the user can mend."""


class ScheduleError(ValueError):
    """A network that cannot be scheduled on the machine as it is; the message says what to change."""
