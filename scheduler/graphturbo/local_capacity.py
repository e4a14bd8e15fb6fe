"""Local buffer capacity as Algorithm 1 queries it: whether a number of bytes fits, and nothing else.

A result is valid for every buffer size between the largest request that fitted and the smallest that did not.
"""


class LocalCapacity:
    """Local buffer capacity in bytes, with the bounds of the requests made so far."""

    __slots__ = ("fitted_bytes", "local_bytes", "refused_bytes")

    def __init__(self, local_bytes: int) -> None:
        self.local_bytes = local_bytes
        self.fitted_bytes = 0
        """Largest request that fitted, in bytes."""
        self.refused_bytes: int | None = None
        """Smallest request that did not fit, in bytes; None if all did."""

    def holds(self, size_bytes: int) -> bool:
        """Return whether ``size_bytes`` fit, and record the request."""
        if size_bytes <= self.local_bytes:
            self.fitted_bytes = max(self.fitted_bytes, size_bytes)
            return True
        self.refused_bytes = size_bytes if self.refused_bytes is None else min(self.refused_bytes, size_bytes)
        return False
