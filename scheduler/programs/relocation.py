"""Columns of programs being written, when instructions, or what they name, get other positions."""

from dsascape.hw_models.in_c import is_built, may_use
from dsascape.hw_models.simulation.columns import Column, Rows, column

if is_built("dsascape.scheduler.in_c.columns"):
    from dsascape.scheduler.in_c import columns


def relocation() -> "Relocation":
    """Return what does it: compiled code, where that may be used."""
    return _InC() if may_use("dsascape.scheduler.in_c.columns") else Relocation()


class Relocation:
    """Makes the columns of instructions that get other positions, in Python."""

    def extend(self, rows: Rows, more: Rows) -> None:
        """Append ``more`` to ``rows`` that are being collected; all else leaves what it is given as it is."""
        rows.first.extend(self.shifted(more.first[1:], len(rows.items)))
        rows.items.extend(more.items)

    def relocated(self, rows: Rows, first: int, outside: Rows, entry: tuple[int, ...]) -> Rows:
        """Return what the instructions of a fragment wait for where its first one is at ``first``.

        In ``rows`` numbers from zero on are positions in the fragment; -2, -3 and so on stand for the rows of what is
        ``outside``. An instruction that waits for nothing waits for ``entry``.
        """
        found, behind = Rows(), list(outside)
        for row in rows:
            waits: list[int] = []
            for position in row:
                if position >= 0:
                    waits.append(first + position)
                else:
                    waits.extend(behind[-2 - position])
            found.append(tuple(dict.fromkeys(waits or entry)))
        return found

    def reordered(self, rows: Rows, order: Column, *, of_positions: bool) -> Rows:
        """Return ``rows`` in another ``order``; what is in them is renumbered alike if they are ``of_positions``."""
        places = list(range(len(order)))
        for place, position in enumerate(order):
            places[position] = place
        taken = [rows[position] for position in order]
        return Rows.of([[places[number] for number in row] for row in taken] if of_positions else taken)

    def grouped(self, numbers: Column, count: int) -> Rows:
        """Return for each number below ``count`` the places where ``numbers`` have it."""
        found: list[list[int]] = [[] for _ in range(count)]
        for place, number in enumerate(numbers):
            found[number].append(place)
        return Rows.of(found)

    def gathered(self, numbers: Column, places: Column) -> Column:
        """Return of ``numbers`` those at ``places``, in this order."""
        return column([numbers[place] for place in places])

    def shifted(self, numbers: Column, by: int) -> Column:
        """Return ``numbers`` that are so much larger."""
        return column([number + by for number in numbers])


class _InC(Relocation):
    """Does the same by compiled code."""

    def relocated(self, rows: Rows, first: int, outside: Rows, entry: tuple[int, ...]) -> Rows:
        return Rows(*columns.relocated(*rows.pair, first, *outside.pair, entry))

    def reordered(self, rows: Rows, order: Column, *, of_positions: bool) -> Rows:
        return Rows(*columns.reordered(*rows.pair, order, of_positions))

    def grouped(self, numbers: Column, count: int) -> Rows:
        return Rows(*columns.grouped(numbers, count))

    def gathered(self, numbers: Column, places: Column) -> Column:
        return columns.gathered(numbers, places)

    def shifted(self, numbers: Column, by: int) -> Column:
        return columns.shifted(numbers, by)
