"""Which addresses of a memory are occupied at which steps, asked for stretches of steps."""

from bisect import insort


class OccupiedAddresses:
    """Blocks and the steps during which they are there.

    Steps are cut into stretches, and each stretch lists by address the blocks that are there during any of its steps,
    so that a question looks at little more than what it is about. ``stretch_steps``: of one stretch; about as long as
    the live ranges that are asked for.
    """

    def __init__(self, stretch_steps: int) -> None:
        self._steps = max(stretch_steps, 1)
        self._stretches: dict[int, list[tuple[int, int, int, int]]] = {}
        """Per stretch: where a block begins and ends, its first step and the one behind its last, by address."""

    def add(self, live: range, address: int, size_bytes: int) -> None:
        """Let a block be there during all steps of ``live``."""
        entry = address, address + size_bytes, live.start, live.stop
        for stretch in range(live.start // self._steps, (live.stop - 1) // self._steps + 1):
            insort(self._stretches.setdefault(stretch, []), entry)

    def during(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return where blocks begin and end that are there at any step from ``begin`` to before ``end``, by address."""
        first, last = begin // self._steps, (end - 1) // self._steps
        listed = self._stretches.get(first, ())
        found = [(low, high) for low, high, start, stop in listed if start < end and begin < stop]
        if first == last:
            return found
        for stretch in range(first + 1, last + 1):
            since = stretch * self._steps  # what began earlier has been found in the stretch before
            listed = self._stretches.get(stretch, ())
            found += [(low, high) for low, high, start, stop in listed if since <= start < end]
        return sorted(found)
