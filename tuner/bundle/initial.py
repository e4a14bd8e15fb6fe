"""Contents of a tensor before a candidate runs, so that results of the candidate before do not pass for its own."""

import math
import struct

from dsascape.tuner.bundle.contents import FORMATS, BundledArray

_NAN_BYTE = 0xFF
"""Byte that makes a floating-point number of any size no number."""


def initial(array: BundledArray, data: memoryview) -> bytes:
    """Return the bytes of a tensor in a buffer: its values where ``data`` has them, else what no right result has.

    A floating-point result is no number; any other is made of a byte that does not occur among its expected elements,
    unless all do.
    """
    if array.values is not None:
        return data[array.values.offset : array.values.offset + array.values.size_bytes].tobytes()
    size_bytes = math.prod(array.shape) * struct.calcsize(FORMATS[array.dtype])
    if array.dtype.startswith("float") or array.expected is None:
        return bytes([_NAN_BYTE]) * size_bytes
    place = array.expected
    expected = set(data[place.offset : place.offset + place.size_bytes])
    return bytes([next((each for each in range(_NAN_BYTE, 0, -1) if each not in expected), 0)]) * size_bytes
