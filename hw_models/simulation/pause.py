"""The cyclic garbage collector, where many records are made and nearly all are kept: it would search in vain."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 2_000_000
"""Objects made and not given back before they are looked through. Of those that a point makes, 30 to 3,000 are garbage
that only a search finds; nearly all others are kept in tables that are bounded by themselves."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch the collector off inside the block, and on again behind it if it was on."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def collect_seldom() -> None:
    """Let this process, which computes one design point after another, look for garbage every few thousand points."""
    gc.set_threshold(_SELDOM)
