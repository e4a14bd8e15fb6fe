"""Version under which results are stored; points are computed again when it changes."""

__version__ = "0.1.0"
