"""The numbers that operators compute with: a few functions, of numpy's arrays here, of expressions elsewhere.

The arithmetic of an operator (`workloads.arithmetic.elementwise`, `reductions`) and what its reads address
(`scheduler.kernels.values`) is written once over these functions and Python's operators. The code generator has them
make expressions, an interpreter of loops has them compute.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dsascape.workloads.operators.registry import Array


class Numbers(ABC):
    """Functions of numbers that Python has no operator for. A number is whatever the subclass computes with.

    Dtypes are numpy's names. Integers of Python may stand for indices.
    """

    @abstractmethod
    def const(self, value: float, dtype: str) -> Any:
        """Return a constant of the dtype."""

    @abstractmethod
    def dtype_of(self, x: Any) -> str:
        """Return the dtype of a number."""

    @abstractmethod
    def cast(self, x: Any, dtype: str) -> Any:
        """Return ``x`` in another dtype."""

    @abstractmethod
    def lowest(self, dtype: str) -> Any:
        """Return the least number of the dtype, with which a maximum begins."""

    @abstractmethod
    def highest(self, dtype: str) -> Any:
        """Return the greatest number of the dtype, with which a minimum begins."""

    @abstractmethod
    def maximum(self, x: Any, y: Any) -> Any:
        """Return the greater of two numbers."""

    @abstractmethod
    def minimum(self, x: Any, y: Any) -> Any:
        """Return the smaller of two numbers."""

    @abstractmethod
    def select(self, condition: Any, x: Any, y: Any) -> Any:
        """Return ``x`` where the condition holds, else ``y``; both are computed."""

    @abstractmethod
    def where(self, conditions: Sequence[Any], compute: Callable[[], Any], other: Any = None) -> Any:
        """Return what ``compute`` makes where all ``conditions`` hold; elsewhere ``other``, or zero.

        ``compute`` reads nothing where they do not.
        """

    @abstractmethod
    def equal(self, x: Any, y: Any) -> Any:
        """Return whether two numbers are equal."""

    @abstractmethod
    def both(self, *conditions: Any) -> Any:
        """Return whether all conditions hold."""

    @abstractmethod
    def either(self, *conditions: Any) -> Any:
        """Return whether any condition holds."""

    @abstractmethod
    def negated(self, condition: Any) -> Any:
        """Return whether a condition does not hold."""

    @abstractmethod
    def floor_divide(self, x: Any, y: Any) -> Any:
        """Return the quotient of integers, rounded down."""

    @abstractmethod
    def floor_modulo(self, x: Any, y: Any) -> Any:
        """Return the remainder of integers that belongs to `floor_divide`."""

    @abstractmethod
    def truncated_divide(self, x: Any, y: Any) -> Any:
        """Return the quotient of integers, rounded towards zero."""

    @abstractmethod
    def truncated_modulo(self, x: Any, y: Any) -> Any:
        """Return the remainder of integers that belongs to `truncated_divide`."""

    @abstractmethod
    def power(self, x: Any, y: Any) -> Any:
        """Return ``x`` to the power of ``y``."""

    @abstractmethod
    def call(self, function: str, x: Any) -> Any:
        """Return a function of one number: abs, acos, asin, atan, ceil, cos, floor, isnan, log, rint, sin, sqrt, trunc.

        ``rint`` rounds to the nearest integer, halves to the even one.
        """

    @abstractmethod
    def exponential(self, x: Any) -> Any:
        """Return e to the power of ``x``."""

    @abstractmethod
    def tanh(self, x: Any) -> Any:
        """Return the hyperbolic tangent."""

    @abstractmethod
    def erf(self, x: Any) -> Any:
        """Return the error function."""

    def within(self, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` makes: one expression, in which each element that is read `once` has a name."""
        return compute()

    def unnamed(self, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` makes without names, so that it may be an index."""
        return compute()

    def once(self, name: str, place: Sequence[Any], compute: Callable[[], Any]) -> Any:
        """Return the element of the tensor ``name`` at ``place``, which ``compute`` makes if it is not known yet."""
        del name, place
        return compute()

    def like(self, x: Any, value: float) -> Any:
        """Return a constant of the dtype of ``x``."""
        return self.const(value, self.dtype_of(x))

    def sigmoid(self, x: Any) -> Any:
        """Return 1 / (1 + e^-x)."""
        return self.like(x, 1) / (self.like(x, 1) + self.exponential(self.like(x, 0) - x))


class NumpyNumbers(Numbers):
    """Numbers of numpy: each is an array of the elements that are computed at a time, or one element.

    Left to subclasses: `where`, as they know how elements are read.
    """

    def const(self, value: float, dtype: str) -> Any:
        return np.dtype(dtype).type(value)

    def dtype_of(self, x: Any) -> str:
        return str(x.dtype)

    def cast(self, x: Any, dtype: str) -> Any:
        return np.asarray(x).astype(dtype)

    def lowest(self, dtype: str) -> Any:
        return self._limits(dtype).min

    def highest(self, dtype: str) -> Any:
        return self._limits(dtype).max

    @staticmethod
    def _limits(dtype: str) -> Any:
        return np.finfo(dtype) if np.issubdtype(np.dtype(dtype), np.floating) else np.iinfo(dtype)

    def maximum(self, x: Any, y: Any) -> Any:
        return np.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return np.minimum(x, y)

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def equal(self, x: Any, y: Any) -> Any:
        return np.equal(x, y)

    def both(self, *conditions: Any) -> Any:
        return np.logical_and.reduce(np.broadcast_arrays(*conditions)) if conditions else np.bool_(True)

    def either(self, *conditions: Any) -> Any:
        return np.logical_or.reduce(np.broadcast_arrays(*conditions))

    def negated(self, condition: Any) -> Any:
        return np.logical_not(condition)

    def floor_divide(self, x: Any, y: Any) -> Any:
        return x // y

    def floor_modulo(self, x: Any, y: Any) -> Any:
        return x % y

    def truncated_divide(self, x: Any, y: Any) -> Any:
        return self.cast(np.trunc(np.divide(x, y)), self.dtype_of(x))

    def truncated_modulo(self, x: Any, y: Any) -> Any:
        return np.fmod(x, y)

    def power(self, x: Any, y: Any) -> Any:
        return np.power(x, y)

    def call(self, function: str, x: Any) -> Any:
        return getattr(np, _NUMPY_NAMES.get(function, function))(x)

    def exponential(self, x: Any) -> Any:
        return np.exp(x)

    def tanh(self, x: Any) -> Any:
        return np.tanh(x)

    def erf(self, x: Any) -> Any:
        return _erf(x).astype(self.dtype_of(x))


_NUMPY_NAMES = {"acos": "arccos", "asin": "arcsin", "atan": "arctan"}
_erf: Callable[[Any], Array] = np.vectorize(math.erf, otypes=[np.float64])
