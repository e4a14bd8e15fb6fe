"""Relocation of program columns, when instructions, or the things they refer to, get other positions."""

from dsascape.hw_models.in_c import is_built, may_use
from dsascape.hw_models.simulation.columns import Column, Rows, column

if is_built("dsascape.scheduler.in_c.columns"):
    from dsascape.scheduler.in_c import columns


def relocation() -> "Relocation":
    """Return the implementation of relocation: in C where that may be used, else in Python."""
    return _InC() if may_use("dsascape.scheduler.in_c.columns") else Relocation()


class Relocation:
    """Operations on columns of instructions that get other positions, in Python."""

    def extend(self, rows: Rows, more: Rows) -> None:
        """Append ``more`` to ``rows`` in place; all other operations leave their arguments unchanged."""
        rows.first.extend(self.shifted(more.first[1:], len(rows.items)))
        rows.items.extend(more.items)

    def relocated(self, rows: Rows, first: int, outside: Rows, entry: tuple[int, ...]) -> Rows:
        """Return the dependencies of a fragment's instructions after placing its first one at ``first``.

        In ``rows``, numbers from zero are positions in the fragment; -2, -3 and so on stand for the rows of
        ``outside``. An instruction without dependencies waits for ``entry``.
        """
        relocated_rows, behind = Rows(), list(outside)
        for row in rows:
            waits: list[int] = []
            for position in row:
                if position >= 0:
                    waits.append(first + position)
                else:
                    waits.extend(behind[-2 - position])
            relocated_rows.append(tuple(dict.fromkeys(waits or entry)))
        return relocated_rows

    def reordered(self, rows: Rows, order: Column, *, of_positions: bool) -> Rows:
        """Return ``rows`` in another ``order``; with ``of_positions``, their entries are renumbered the same way."""
        places = list(range(len(order)))
        for place, position in enumerate(order):
            places[position] = place
        taken = [rows[position] for position in order]
        return Rows.of([[places[number] for number in row] for row in taken] if of_positions else taken)

    def grouped(self, numbers: Column, count: int) -> Rows:
        """Return for each number below ``count`` its positions in ``numbers``."""
        places: list[list[int]] = [[] for _ in range(count)]
        for place, number in enumerate(numbers):
            places[number].append(place)
        return Rows.of(places)

    def gathered(self, numbers: Column, places: Column) -> Column:
        """Return the entries of ``numbers`` at ``places``, in this order."""
        return column([numbers[place] for place in places])

    def shifted(self, numbers: Column, by: int) -> Column:
        """Return ``numbers``, each increased by ``by``."""
        return column([number + by for number in numbers])


class _InC(Relocation):
    """Operations on columns in C."""

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
