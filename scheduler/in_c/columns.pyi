"""Columns of programs being written, compiled: see ``columns.c``."""

sources: str

def begin_order(
    work_of: list[int],
    unit_of_work: list[int],
    layers: list[int],
    durations_ps: list[int],
    ends_ps: list[int],
    is_transfer: list[bool],
    after: list[tuple[int, ...]],
    frees: list[tuple[int, ...]],
    allocated_by: list[int],
    /,
) -> list[int]: ...
def relocated(
    rows: tuple[tuple[int, ...], ...], first: int, outside: list[tuple[int, ...]], entry: tuple[int, ...], /
) -> list[tuple[int, ...]]: ...
def reordered(rows: list[tuple[int, ...]], order: list[int], /) -> tuple[tuple[int, ...], ...]: ...
