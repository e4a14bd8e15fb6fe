"""Bounds on how long the grids of a layer take, for all of them at once: which a search need not look at closely."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models.gpu.sm import ACCESS, ISSUE, LANES, SHARED, SPECIAL, TENSOR
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Grid

_PIPES = (LANES, SPECIAL, ISSUE, ACCESS, TENSOR)


@dataclass(frozen=True, eq=False)
class Grids:
    """The grids that are tried for a layer."""

    tiles: Sequence[GpuTiles]
    listed: Sequence[Grid]
    """About the grid of each."""
    instructions: NDArray[np.float64]
    """By grid and pipe of an SM: what all blocks together issue there."""
    shared_bytes: NDArray[np.float64]
    """By grid: what all blocks together move in shared memory."""
    l2_bytes: NDArray[np.float64]

    @staticmethod
    def of(tiles: Sequence[GpuTiles], grids: Sequence[Grid]) -> "Grids":
        """Return what is needed of ``grids``, those of ``tiles``, as arrays."""
        rows = []
        for grid in grids:
            issued = grid.code.issued
            by_pipe = (
                issued.fma + issued.arithmetic, issued.special, issued.total, issued.load + issued.store, issued.matrix
            )  # fmt: skip
            rows.append([grid.blocks * count for count in by_pipe])
        return Grids(
            tiles, grids, np.array(rows, dtype=np.float64).reshape(len(grids), len(_PIPES)),
            np.array([grid.blocks * grid.code.shared_bytes for grid in grids], dtype=np.float64),
            np.array([grid.l2_bytes for grid in grids], dtype=np.float64),
        )  # fmt: skip

    def bounds_ps(self, view: GpuView, dram_bytes: float) -> NDArray[np.float64]:
        """Return for each grid a time that it cannot beat if no less than ``dram_bytes`` move from and to DRAM.

        That is the time of the busiest pipe if all SMs are equally busy, and that of each memory at its bandwidth.
        """
        spec = view.spec
        rates = view.pace.warps_per_cycle
        slowness = np.array([1 / rates[pipe] if pipe in rates else 0.0 for pipe in _PIPES])
        cycles = (self.instructions * slowness).max(axis=1)
        cycles = np.maximum(cycles, self.shared_bytes / view.pace.bytes_per_cycle[SHARED])
        found: NDArray[np.float64] = cycles * (spec.cycle_ps / spec.sms.count)
        found = np.maximum(found, self.l2_bytes * (PS_PER_S / spec.l2.bandwidth_bytes_per_s))
        found = np.maximum(found, dram_bytes * PS_PER_S / spec.dram.sustained_bytes_per_s)
        return found + spec.launch_ps
