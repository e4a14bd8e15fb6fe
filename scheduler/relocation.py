"""Columns of programs being written, when instructions, or what they name, get other positions."""

from collections.abc import Sequence

from hw_models.columns import Column, Rows, column
from hw_models.in_c import is_built, may_use

if is_built("scheduler.in_c.columns"):
    from scheduler.in_c import columns


def _in_c() -> bool:
    return may_use("scheduler.in_c.columns")


def relocated(rows: Rows, first: int, outside: Sequence[tuple[int, ...]], entry: tuple[int, ...]) -> Rows:
    """Return what the instructions of a fragment wait for where its first one is at ``first``.

    In ``rows`` numbers from zero on are positions in the fragment; -2, -3 and so on stand for what is ``outside``, in
    this order. An instruction that waits for nothing waits for ``entry``.
    """
    if _in_c():
        return Rows(*columns.relocated(*rows.pair, first, tuple(outside), entry))
    found = Rows()
    for row in rows:
        waits: list[int] = []
        for position in row:
            if position >= 0:
                waits.append(first + position)
            else:
                waits.extend(outside[-2 - position])
        found.append(tuple(dict.fromkeys(waits)) or entry)
    return found


def extend(rows: Rows, more: Rows) -> None:
    """Append ``more`` rows while rows are being collected."""
    rows.first.extend(shifted(more.first[1:], len(rows.items)))
    rows.items.extend(more.items)


def reordered(rows: Rows, order: Column, *, of_positions: bool) -> Rows:
    """Return ``rows`` in another ``order``; the numbers in them are renumbered alike if they are ``of_positions``."""
    if _in_c():
        return Rows(*columns.reordered(*rows.pair, order, of_positions))
    places = list(range(len(order)))
    for place, position in enumerate(order):
        places[position] = place
    taken = [rows[position] for position in order]
    return Rows.of([[places[number] for number in row] for row in taken] if of_positions else taken)


def grouped(numbers: Column, count: int) -> Rows:
    """Return for each number below ``count`` the places where ``numbers`` have it."""
    if _in_c():
        return Rows(*columns.grouped(numbers, count))
    found: list[list[int]] = [[] for _ in range(count)]
    for place, number in enumerate(numbers):
        found[number].append(place)
    return Rows.of(found)


def gathered(numbers: Column, places: Column) -> Column:
    """Return of ``numbers`` those at ``places``, in this order."""
    if _in_c():
        return columns.gathered(numbers, places)
    return column([numbers[place] for place in places])


def shifted(numbers: Column, by: int) -> Column:
    """Return ``numbers`` that are so much larger."""
    if _in_c():
        return columns.shifted(numbers, by)
    return column([number + by for number in numbers])
