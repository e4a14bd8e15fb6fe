"""Recursion as deep as a network is long, by generators: Python's own call stack ends after a thousand calls."""

from collections.abc import Generator
from typing import Any, TypeVar

_T = TypeVar("_T")
Deep = Generator[Any, Any, _T]
"""Generator that yields further such calls, is sent the result of each, and returns its own."""


def settle(call: Deep[_T]) -> _T:
    """Return the result of ``call``, running all nested calls that it yields."""
    waiting: list[Deep[Any]] = [call]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as ended:
            waiting.pop()
            result = ended.value
    settled: _T = result
    return settled
