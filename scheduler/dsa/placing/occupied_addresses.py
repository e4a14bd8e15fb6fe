"""Index of the occupied addresses of a memory by step, queried for ranges of steps."""

from bisect import insort


class OccupiedAddresses:
    """Blocks with the steps during which they are live.

    Steps are divided into windows, each of which lists by address the blocks live during any of its steps, so that a
    query scans few others. ``window_steps``: length of a window; about as long as the live ranges queried.
    """

    def __init__(self, window_steps: int) -> None:
        self._steps = max(window_steps, 1)
        self._windows: dict[int, list[tuple[int, int, int, int]]] = {}
        """Blocks per window, by address: (begin address, end address, first step, step after the last)."""

    def add(self, live: range, address: int, size_bytes: int) -> None:
        """Add a block that is live during all steps of ``live``."""
        entry = address, address + size_bytes, live.start, live.stop
        for window in range(live.start // self._steps, (live.stop - 1) // self._steps + 1):
            insort(self._windows.setdefault(window, []), entry)

    def during(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return (begin, end) addresses of blocks live at any step from ``begin`` to before ``end``, by address."""
        first, last = begin // self._steps, (end - 1) // self._steps
        listed = self._windows.get(first, ())
        blocks = [(low, high) for low, high, start, stop in listed if start < end and begin < stop]
        if first == last:
            return blocks
        for window in range(first + 1, last + 1):
            since = window * self._steps  # blocks that began earlier are listed in the window before
            listed = self._windows.get(window, ())
            blocks += [(low, high) for low, high, start, stop in listed if since <= start < end]
        return sorted(blocks)
