"""Rows of numbers, one row for each instruction, when instructions or what they name get other positions."""

from collections.abc import Callable

from hw_models.in_c import is_built, may_use

if is_built("scheduler.in_c.columns"):
    from scheduler.in_c import columns


Relocate = Callable[
    [tuple[tuple[int, ...], ...], int, list[tuple[int, ...]], tuple[int, ...]], list[tuple[int, ...]]
]


def relocation() -> Relocate:
    """Return what relocates rows: compiled code, where that may be used."""
    return columns.relocated if may_use("scheduler.in_c.columns") else relocated


def relocated(
    rows: tuple[tuple[int, ...], ...], first: int, outside: list[tuple[int, ...]], entry: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """Return what the instructions of a fragment wait for where its first one is at ``first``.

    In ``rows`` numbers from zero on are positions in the fragment; -2, -3 and so on stand for what is ``outside``, in
    this order. An instruction that waits for nothing waits for ``entry``. So are buffers numbered anew.
    """
    found = []
    for row in rows:
        waits: list[int] = []
        for position in row:
            if position >= 0:
                waits.append(first + position)
            else:
                waits.extend(outside[-2 - position])
        found.append(tuple(dict.fromkeys(waits)) or entry)
    return found


def reordered(rows: list[tuple[int, ...]], order: list[int]) -> tuple[tuple[int, ...], ...]:
    """Return ``rows`` for instructions that come in another ``order``, with the positions that they have then."""
    if may_use("scheduler.in_c.columns"):
        return columns.reordered(rows, order)
    place = [0] * len(order)
    for new, position in enumerate(order):
        place[position] = new
    return tuple([tuple([place[before] for before in rows[position]]) for position in order])
