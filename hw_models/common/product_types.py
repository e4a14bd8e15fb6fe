"""Dtypes that machines multiply: of one dtype, or of a wide operand with a narrow one, and what stands in for them."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal

from dsascape.hw_models.common.spec_types import DType

ProductType = Literal[
    DType, "fp32 x int8", "fp32 x int4", "fp16 x fp8", "fp16 x int8", "fp16 x int4", "bf16 x fp8", "bf16 x int8",
    "bf16 x int4", "fp8 x int4", "int8 x int4",
]  # fmt: skip
"""Dtype of both operands of a product, or of the wide and the narrow one where a machine multiplies such pairs."""
BITS: Mapping[str, int] = MappingProxyType({"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4})
"""Bits of one number, by dtype of a machine."""
_WIDER: Mapping[str, tuple[str, ...]] = MappingProxyType({"int4": ("int8",)})


def operands_of(product: str) -> tuple[str, str]:
    """Return the dtypes of the two operands of a product type, the wide one first."""
    wide, _, narrow = product.partition(" x ")
    return wide, narrow or wide


def wider(left: str, right: str, otherwise: str) -> str:
    """Return the wider of two dtypes; ``otherwise`` for two different ones of equal width."""
    if left == right:
        return left
    if BITS[left] == BITS[right]:
        return otherwise
    return max(left, right, key=BITS.__getitem__)


def product_type(rates: Collection[str], left: str, right: str, otherwise: str) -> str:
    """Return the product type in which units with ``rates`` multiply operands of two dtypes.

    The pair itself where there is a rate for it, else the wider dtype of the two, else the next wider one that has a
    rate: int8 for int4, and behind that ``otherwise``, the dtype of the network's other floating-point numbers.
    """
    pairs = f"{left} x {right}", f"{right} x {left}"
    widest = wider(left, right, otherwise)
    return next((each for each in (*pairs, widest, *_WIDER.get(widest, ())) if each in rates), otherwise)
