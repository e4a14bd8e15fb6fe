"""Room in the local buffers, as Algorithm 1 asks for it: whether so many bytes fit, and nothing else.

What comes of some questions comes of them for all local buffers that answer them alike. Which these are, the answers
tell: those that hold the most bytes that did fit, and not the least that did not.
"""


class Room:
    """So many bytes of local buffer, and what has been asked of them."""

    __slots__ = ("fitted_bytes", "local_bytes", "refused_bytes")

    def __init__(self, local_bytes: int) -> None:
        self.local_bytes = local_bytes
        self.fitted_bytes = 0
        """The most that was asked for and fits."""
        self.refused_bytes: int | None = None
        """The least that was asked for and does not fit; None where all does."""

    def holds(self, size_bytes: int) -> bool:
        """Return whether ``size_bytes`` fit."""
        if size_bytes <= self.local_bytes:
            self.fitted_bytes = max(self.fitted_bytes, size_bytes)
            return True
        self.refused_bytes = size_bytes if self.refused_bytes is None else min(self.refused_bytes, size_bytes)
        return False
