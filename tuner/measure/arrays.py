"""Aligned memory for generated code, which loads whole vectors."""

import numpy as np

from dsascape.workloads.operators.registry import Array

ALIGNMENT_BYTES = 64
"""Alignment of each tensor's first element, for the longest vectors of any target."""


READABLE_BEHIND_BYTES = 1024
"""Readable bytes after each tensor: vectors that extend beyond its last row are loaded whole."""


_CHUNK_BYTES = 64 * 2**20


def aligned_bytes(size_bytes: int) -> Array:
    """Return an uninitialised array of ``size_bytes`` bytes at an aligned address."""
    return Arena(size_bytes).bytes(size_bytes)


class Arena:
    """Memory for many tensors, allocated in large pieces.

    The system maps large pieces with large pages, so that reading tensors in turn is not slowed by address translation.
    """

    def __init__(self, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._free: Array = np.empty(0, np.uint8)

    def bytes(self, size_bytes: int) -> Array:
        """Return an uninitialised array of ``size_bytes`` bytes at an aligned address."""
        taken = size_bytes + ALIGNMENT_BYTES + READABLE_BEHIND_BYTES
        if self._free.size < taken:
            self._free = np.empty(max(self._chunk_bytes, taken), np.uint8)
        start = -self._free.ctypes.data % ALIGNMENT_BYTES
        array = self._free[start : start + size_bytes]
        self._free = self._free[start + size_bytes + READABLE_BEHIND_BYTES :]
        return array

    def copy(self, value: Array) -> Array:
        """Return a copy of ``value`` at an aligned address."""
        copy: Array = self.bytes(value.nbytes).view(value.dtype).reshape(value.shape)
        copy[...] = value
        return copy
