"""Memory that generated code may use: vectors are loaded from aligned addresses."""

import numpy as np

from dsascape.workloads.operators.registry import Array

ALIGNMENT_BYTES = 64
"""Of the first element of every tensor: the longest vectors of any target."""


READABLE_BEHIND_BYTES = 1024
"""Behind every tensor: vectors that stick out of its last row are loaded whole."""


_CHUNK_BYTES = 64 * 2**20


def aligned_bytes(size_bytes: int) -> Array:
    """Return an array of ``size_bytes`` bytes at an aligned address; what it holds is not defined."""
    return Arena(size_bytes).bytes(size_bytes)


class Arena:
    """Memory for many tensors, taken from the system in large pieces.

    The system maps those with large pages, so that reading one tensor after the other is not held up by the translation
    of addresses.
    """

    def __init__(self, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._free: Array = np.empty(0, np.uint8)

    def bytes(self, size_bytes: int) -> Array:
        """Return an array of ``size_bytes`` bytes at an aligned address; what it holds is not defined."""
        taken = size_bytes + ALIGNMENT_BYTES + READABLE_BEHIND_BYTES
        if self._free.size < taken:
            self._free = np.empty(max(self._chunk_bytes, taken), np.uint8)
        start = -self._free.ctypes.data % ALIGNMENT_BYTES
        found = self._free[start : start + size_bytes]
        self._free = self._free[start + size_bytes + READABLE_BEHIND_BYTES :]
        return found

    def copy(self, value: Array) -> Array:
        """Return a copy of ``value`` that generated code may read."""
        copy: Array = self.bytes(value.nbytes).view(value.dtype).reshape(value.shape)
        copy[...] = value
        return copy
