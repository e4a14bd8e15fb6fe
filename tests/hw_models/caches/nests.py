"""Small hand-tiled loop nests: matrix products, convolutions, elementwise work, a transposition."""

from dsascape.hw_models.caches.lines import Array
from dsascape.hw_models.caches.nests import Access

Tiled = tuple[list[int], list[Access]]
"""Iterations of the loops, outermost first, and what they access."""
ELEMENT_BYTES = 4


def array(*shape: int) -> Array:
    return Array(shape, ELEMENT_BYTES)


def matmul(rows: int, columns: int, depth: int, tile: tuple[int, int, int], order: str = "ijk") -> Tiled:
    """Loops over tiles in ``order``, then inside a tile i, j, k."""
    tiles = dict(zip("ijk", tile, strict=True))
    trips = [{"i": rows, "j": columns, "k": depth}[name] // tiles[name] for name in order] + list(tile)
    outer = {name: order.index(name) for name in "ijk"}

    def index(name: str) -> tuple[tuple[int, int], ...]:
        return (outer[name], tiles[name]), (3 + "ijk".index(name), 1)

    return trips, [
        Access(array(rows, depth), (index("i"), index("k"))),
        Access(array(depth, columns), (index("k"), index("j"))),
        Access(array(rows, columns), (index("i"), index("j")), is_written=True),
    ]


def convolution(size: int, inner: int, outer: int, kernel: int, tile: tuple[int, int]) -> Tiled:
    """Channels last: tiles of rows and output channels; inside rows, columns, output channels, taps, input channels."""
    rows, channels = tile
    trips = [size // rows, outer // channels, rows, size, channels, kernel, kernel, inner]
    padded = size + kernel - 1
    return trips, [
        Access(array(padded, padded, inner), (((0, rows), (2, 1), (5, 1)), ((3, 1), (6, 1)), ((7, 1),))),
        Access(array(kernel, kernel, inner, outer), (((5, 1),), ((6, 1),), ((7, 1),), ((1, channels), (4, 1)))),
        Access(array(size, size, outer), (((0, rows), (2, 1)), ((3, 1),), ((1, channels), (4, 1))), is_written=True),
    ]


def depthwise(size: int, channels: int, kernel: int, rows: int) -> Tiled:
    trips = [size // rows, rows, size, kernel, kernel, channels]
    padded = size + kernel - 1
    return trips, [
        Access(array(padded, padded, channels), (((0, rows), (1, 1), (3, 1)), ((2, 1), (4, 1)), ((5, 1),))),
        Access(array(kernel, kernel, channels), (((3, 1),), ((4, 1),), ((5, 1),))),
        Access(array(size, size, channels), (((0, rows), (1, 1)), ((2, 1),), ((5, 1),)), is_written=True),
    ]


def elementwise(rows: int, columns: int) -> Tiled:
    """A sum of a matrix and a row."""
    whole = ((0, 1),), ((1, 1),)
    return [rows, columns], [
        Access(array(rows, columns), whole),
        Access(array(columns), (((1, 1),),)),
        Access(array(rows, columns), whole, is_written=True),
    ]


def transposition(rows: int, columns: int, tile: tuple[int, int]) -> Tiled:
    down, across = tile
    row, column = ((0, down), (2, 1)), ((1, across), (3, 1))
    return [rows // down, columns // across, down, across], [
        Access(array(rows, columns), (row, column)),
        Access(array(columns, rows), (column, row), is_written=True),
    ]
