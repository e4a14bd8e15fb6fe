"""Compiled list scheduling and relocation of a program's columns: see ``columns.c``."""

from dsascape.hw_models.simulation.columns import Column
from dsascape.scheduler.programs.list_scheduling import WorkTime

sources: str

def begin_order(
    works: list[WorkTime],
    work_of: Column,
    layers: Column,
    after_first: Column,
    after_items: Column,
    frees_first: Column,
    frees_items: Column,
    allocated_by: Column,
    /,
) -> Column: ...
def gathered(numbers: Column, places: Column, /) -> Column: ...
def grouped(numbers: Column, count: int, /) -> tuple[Column, Column]: ...
def relocated(
    first: Column,
    items: Column,
    position: int,
    outside_first: Column,
    outside_items: Column,
    entry: tuple[int, ...],
    /,
) -> tuple[Column, Column]: ...
def reordered(first: Column, items: Column, order: Column, of_positions: bool, /) -> tuple[Column, Column]: ...
def shifted(numbers: Column, by: int, /) -> Column: ...

class PrefetchBuffer:
    """Compiled `scheduler.dsa.lower.prefetch_buffer.PrefetchBuffer`, without its name."""

    def __init__(self, capacity_bytes: int, in_flight: int, /) -> None: ...
    def pass_through(
        self,
        sizes_bytes: Column,
        users: Column,
        stated_before: Column,
        filled: Column,
        transfers_first: Column,
        transfers_items: Column,
        first: int,
        /,
    ) -> tuple[Column, Column]: ...
