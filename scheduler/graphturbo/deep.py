"""Recursion as deep as a network is long: Python's own ends after a thousand calls."""

from collections.abc import Generator
from typing import Any, TypeVar

_T = TypeVar("_T")
Deep = Generator[Any, Any, _T]
"""A function that yields the calls, of its kind, whose results it needs, and is sent each result."""


def settle(call: Deep[_T]) -> _T:
    """Return the result of ``call`` and of all that it leads to."""
    waiting: list[Deep[Any]] = [call]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as ended:
            waiting.pop()
            result = ended.value
    found: _T = result
    return found
