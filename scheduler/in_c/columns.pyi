"""Columns of programs being written, compiled: see ``columns.c``."""

from hw_models.columns import Column
from scheduler.list_scheduling import WorkTime

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
    first: Column, items: Column, position: int, outside: tuple[tuple[int, ...], ...], entry: tuple[int, ...], /
) -> tuple[Column, Column]: ...
def reordered(first: Column, items: Column, order: Column, of_positions: bool, /) -> tuple[Column, Column]: ...
def shifted(numbers: Column, by: int, /) -> Column: ...
