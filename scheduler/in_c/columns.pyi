"""Columns of programs being written, compiled: see ``columns.c``."""

from scheduler.list_scheduling import WorkTime

sources: str

def begin_order(
    works: list[WorkTime],
    work_of: list[int],
    layers: list[int],
    after: list[tuple[int, ...]],
    frees: list[tuple[int, ...]],
    allocated_by: list[int],
    /,
) -> list[int]: ...
def relocated(
    rows: tuple[tuple[int, ...], ...], first: int, outside: list[tuple[int, ...]], entry: tuple[int, ...], /
) -> list[tuple[int, ...]]: ...
def reordered(rows: list[tuple[int, ...]], order: list[int], /) -> tuple[tuple[int, ...], ...]: ...
