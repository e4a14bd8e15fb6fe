"""Compiled tile search: see ``tiles.c`` and `scheduler.dsa.tiling.encoding`."""

from typing import Self

sources: str

class Tiles:
    """Tile searcher for one layer in one memory layout on machines with the same compute units; caches costs."""

    def __new__(cls, layer: tuple[float, ...], /) -> Self: ...
    def search(self, asked: tuple[float, ...], /) -> tuple[tuple[int, ...], float] | None: ...
