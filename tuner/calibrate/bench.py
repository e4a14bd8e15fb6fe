"""Benches that probes run on: this machine, one behind RPC, or one that a bundle was carried to.

A bundle carries this module, so it uses the standard library only.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Bench(Protocol):
    """Where probes run; `array` returns arguments for the other methods."""

    def array(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return uninitialised memory at an aligned address."""

    def use_threads(self, count: int) -> None:
        """Run loops that are split on ``count`` threads from now on."""

    def run(self, probe: str, arguments: Sequence[Any]) -> None:
        """Run a probe once."""

    def clock(self, probe: str, arguments: Sequence[Any], number: int) -> Callable[[], float]:
        """Return a function that runs a probe ``number`` times in sequence and returns the seconds of one run."""

    def after_waits(self, probe: str, arguments: Sequence[Any], wait_ms: int, tries: int) -> list[float]:
        """Return the seconds of ``tries`` runs, each after a pause."""

    def row(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> Callable[[float], float]:
        """Return a function of a time to spend: the seconds of a sequence of calls, run as a network's kernels are."""
