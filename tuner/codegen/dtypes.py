"""Dtypes of TVM's expressions."""

from typing import Any


def dtype_of(value: Any) -> str:
    """Return the dtype of an expression."""
    return str(value.dtype if hasattr(value, "dtype") else value.ty.dtype)
