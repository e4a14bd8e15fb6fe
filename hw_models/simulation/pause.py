"""Suspension of Python's cyclic garbage collector while a run allocates objects that nearly all stay alive."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 2_000_000
"""Net allocations between collections. A design point leaves 30 to 3,000 objects in reference cycles, which only the
collector frees; nearly all other live objects are in caches that have bounds of their own."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the collector inside the ``with`` block, and enable it afterwards if it was enabled before."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def collect_seldom() -> None:
    """Let this process, which computes many design points, collect garbage once in a few thousand points only."""
    gc.set_threshold(_SELDOM)
