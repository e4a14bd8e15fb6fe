"""Compiled tile search: see ``tiles.c`` and `scheduler.dsa.tiling.encoding`."""

from typing import Self

from dsascape.scheduler.dsa.tiling.records import Asked, Layer

sources: str

class Tiles:
    """Tile searcher for one layer in one memory layout on machines with the same compute units; caches costs."""

    def __new__(cls, layer: Layer, /) -> Self: ...
    def work(self, tile: tuple[int, ...], depth: int, /) -> tuple[tuple[int, ...], int, int, tuple[int, ...]]: ...
    def search(self, asked: Asked, /) -> tuple[tuple[int, ...], float] | None: ...
