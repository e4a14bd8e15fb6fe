"""Rows in which a tile's operands and results lie in memory: pieces of contiguous bytes, which requests move.

Products are laid out as matrix units of accelerators without a global buffer expect them, elements that are added up
or that lie side by side in the result innermost: the first operand by channels of one tap (pixel by pixel, NHWC), the
second one and the result by columns. So a depthwise convolution has rows of one element. Operands that no product reads
are contiguous.
"""

import math
from collections.abc import Mapping

from dsascape.hw_models import Pieces
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.tile_work import NestWork, TileWork


def operand_rows(layer: Layer, work: TileWork) -> dict[str, int]:
    """Return the bytes of one row of each operand that a product of the tile reads, by name."""
    product = _product(work)
    if product is None:
        return {}
    _, columns, _, _, channels, _ = product.matrix_shape or (1,) * 6
    rows: dict[str, int] = {}
    for access, elements in zip(product.nest.reads[:2], (channels, columns), strict=False):
        name = layer.graph.storage.get(access.tensor, access.tensor)
        if name in work.operand_extents:
            rows[name] = _row_bytes(work.operand_bytes[name], math.prod(work.operand_extents[name]), elements)
    return rows


def output_row(layer: Layer, work: TileWork) -> int:
    """Return the bytes of one row of the tile's results; 0 where they are contiguous."""
    product = _product(work)
    if product is None or not work.output_bytes:
        return 0
    _, columns, *_ = product.matrix_shape or (1,) * 6
    return max(columns * layer.sink.element_bits // 8, 1)


def pieces(sizes: Mapping[str, int], rows: Mapping[str, int]) -> Pieces:
    """Return how ``sizes`` bytes by name are divided into rows: (number of rows, bytes of one), the last one padded."""
    each = [(size, min(rows.get(name, size), size)) for name, size in sizes.items() if size]
    return tuple([(-(-size // row), row) for size, row in each])


def _row_bytes(size_bytes: int, elements: int, of_row: int) -> int:
    return max(size_bytes * of_row // max(elements, 1), 1)


def _product(work: TileWork) -> NestWork | None:
    """Return the first product of the tile; None if it has none."""
    return next((each for each in work.nests if each.is_product), None)
