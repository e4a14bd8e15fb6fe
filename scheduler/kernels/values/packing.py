"""How weights lie for a kernel: in panels as wide as a register tile, in the order in which it reads them."""

from dataclasses import dataclass

import numpy as np

from dsascape.workloads.operators.registry import Array


@dataclass(frozen=True)
class Packing:
    """Panels of ``block`` elements of ``dim``: panel, the other dimensions in ``order``, place in the panel."""

    dim: int
    block: int
    order: tuple[int, ...]

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a packed tensor of ``shape``."""
        return (-(-shape[self.dim] // self.block), *(shape[dim] for dim in self.order), self.block)

    def __call__(self, weight: Array) -> Array:
        """Return ``weight`` packed; the last panel is filled up with zeros."""
        panels = -(-weight.shape[self.dim] // self.block)
        missing = panels * self.block - weight.shape[self.dim]
        widths = [(0, missing if dim == self.dim else 0) for dim in range(weight.ndim)]
        whole = np.pad(weight, widths).transpose(self.dim, *self.order)
        split = whole.reshape(panels, self.block, *whole.shape[1:])
        return np.ascontiguousarray(np.moveaxis(split, 1, -1))

