"""Compiled event handler of the simulation: see ``handler.c`` and `hw_models.simulation.compiled_engine`."""

from typing import Self

from dsascape.hw_models.simulation.columns import Column

sources: str

def is_sound(
    after: tuple[Column, Column],
    allocates: tuple[Column, Column],
    frees: tuple[Column, Column],
    buffers: int,
    /,
) -> bool: ...
def spaces_asked(
    allocates: tuple[Column, Column], work_of: Column, which: Column, /
) -> tuple[list[tuple[int, int]], Column]: ...

class Handler:
    """Run of a program's bound work; its constructor starts every unit on its first instructions."""

    def __new__(
        cls,
        *,
        work_of: Column,
        after: tuple[Column, Column],
        allocates: tuple[Column, Column],
        frees: tuple[Column, Column],
        works: tuple[tuple[int, ...], ...],
        demands: tuple[tuple[object, ...], ...],
        queues: tuple[tuple[int, int, int], ...],
        ports: tuple[tuple[float, int, int], ...],
        spaces: tuple[tuple[tuple[int, int], ...], ...],
        space_of: Column,
        kinds: int,
        limits: int,
    ) -> Self: ...
    @property
    def events(self) -> int: ...
    @property
    def unfinished(self) -> int: ...
    def happen(self) -> int: ...
    def columns(self) -> tuple[Column, Column, Column, Column, Column, Column]: ...
    def memories(self) -> list[tuple[float, int, bool, dict[int, int]]]: ...
    def units(self) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]: ...
