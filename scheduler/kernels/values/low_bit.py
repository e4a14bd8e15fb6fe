"""Weights of a few bits, several of which share a byte, widened where a product reads them."""

from collections.abc import Mapping
from typing import Any

from dsascape.scheduler.kernels.values.access import affine
from dsascape.scheduler.kernels.values.sources import Sources
from dsascape.workloads.arithmetic.elementwise import FEW_BITS, SCAN, Operator
from dsascape.workloads.arithmetic.numbers import Numbers
from dsascape.workloads.loopnest import LoopNest

OF_OTHER_DOMAINS = frozenset({FEW_BITS, SCAN})
"""Operators beside the standard's that have code."""
_BYTE = 8


def widened(sources: Sources, op: Operator, nest: LoopNest, loops: Mapping[int, Any]) -> Any:
    """Return a weight of com.microsoft::MatMulNBits: its bits less the block's zero point, times the block's scale.

    Of several that share a byte, the first has the lowest bits. A block without a zero point has that in the middle.
    """
    n, bits = op.numbers, int(op.attributes.get("bits", 4))
    packed, scales, *zero = nest.reads
    scale = sources.read(nest, scales, loops)
    number = _part(n, sources.read(nest, packed, loops), affine(n, packed.indices[-1], loops), bits)
    if not zero:
        offset: Any = n.const(1 << (bits - 1), "int32")
    else:
        value, place = sources.read(nest, zero[0], loops), zero[0].indices[-1]
        is_shared = place.divisor > 1 or not any(stride == 1 for _, stride in place.terms)
        offset = _part(n, value, loops[1], bits) if is_shared and n.dtype_of(value) == "uint8" else value
    dtype = n.dtype_of(scale)
    if n.dtype_of(offset).startswith("float"):
        return (n.cast(number, dtype) - offset) * scale
    return n.cast(number - n.cast(offset, "int32"), dtype) * scale


def _part(n: Numbers, byte: Any, place: Any, bits: int) -> Any:
    """Return the number of so many ``bits`` at a ``place`` among those that bytes hold one after the other."""
    whole, each = n.cast(byte, "int32"), _BYTE // bits
    return whole if each == 1 else (whole >> (n.floor_modulo(place, each) * bits)) & ((1 << bits) - 1)
