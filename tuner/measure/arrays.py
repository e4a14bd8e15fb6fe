"""Memory that generated code may use: vectors are loaded from aligned addresses."""

import numpy as np

from workloads.operators.registry import Array

ALIGNMENT_BYTES = 64
"""Of the first element of every tensor: the longest vectors of any target."""


READABLE_BEHIND_BYTES = 1024
"""Behind every tensor: vectors that stick out of its last row are loaded whole."""


def aligned_bytes(size_bytes: int) -> Array:
    """Return an array of ``size_bytes`` bytes at an aligned address; what it holds is not defined."""
    raw = np.empty(size_bytes + ALIGNMENT_BYTES + READABLE_BEHIND_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size_bytes]


def aligned_copy(value: Array) -> Array:
    """Return a copy of ``value`` that generated code may read."""
    copy: Array = aligned_bytes(value.nbytes).view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy
