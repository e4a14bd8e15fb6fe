"""The search for tiles, compiled: see ``tiles.c`` and `scheduler.dsa.tiling.in_numbers`."""

from typing import Self

sources: str

class Tiles:
    """A layer at one place, on machines that compute alike; what it takes in tiles is kept."""

    def __new__(cls, layer: tuple[float, ...], /) -> Self: ...
    def search(self, asked: tuple[float, ...], /) -> tuple[tuple[int, ...], float] | None: ...
