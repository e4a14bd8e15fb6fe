"""What is to be probed, as it is handed to the process that does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """A target, the shape of its vectors, and arrays that lie in one memory each."""

    target: Mapping[str, Any]
    """As TVM takes it."""
    lanes: int
    """Of single precision."""
    registers: int
    """Vector registers."""
    threads: int
    line_bytes: int
    sizes_bytes: Mapping[str, int]
    """Of arrays by the memory that holds them and no faster one does, for each thread."""
    growing_bytes: tuple[int, ...]
    """Of arrays that tell how much of a cache shared with others there really is."""
